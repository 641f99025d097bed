"""A decision process small enough to list every episode of it: exact values are sums over that list."""

from dataclasses import dataclass
from itertools import product

import numpy as np

from turngate.trainer.offline.estimates import LoggedTurns

N_STATES, N_ACTIONS, TURNS = 3, 2, 3


@dataclass(frozen=True)
class Chain:
    """``TURNS`` turns in states that depend on the turn; an action leads to a state by chance and earns by chance."""

    start_S: np.ndarray
    next_TSAS: np.ndarray
    reward_TSA: np.ndarray  # probability of reward 1
    policy_TSA: np.ndarray
    behaviour_TSA: np.ndarray

    @classmethod
    def random(cls, seed: int, *, closeness: float = 0.6) -> "Chain":
        rng = np.random.default_rng(seed)

        def simplex(*shape: int) -> np.ndarray:
            return rng.dirichlet(np.ones(shape[-1]) * 2, size=shape[:-1])

        behaviour = 0.2 + 0.6 * simplex(TURNS, N_STATES, N_ACTIONS)
        policy = closeness * behaviour + (1 - closeness) * simplex(TURNS, N_STATES, N_ACTIONS)
        return cls(
            start_S=simplex(N_STATES),
            next_TSAS=simplex(TURNS, N_STATES, N_ACTIONS, N_STATES),
            reward_TSA=rng.random((TURNS, N_STATES, N_ACTIONS)),
            policy_TSA=policy,
            behaviour_TSA=behaviour,
        )

    def exact(self) -> tuple[float, np.ndarray, np.ndarray]:
        """The policy's value, its Q by turn, state and action, and its V by turn and state."""
        q, v = np.zeros_like(self.reward_TSA), np.zeros((TURNS + 1, N_STATES))
        for turn in reversed(range(TURNS)):
            q[turn] = self.reward_TSA[turn] + self.next_TSAS[turn] @ v[turn + 1]
            v[turn] = (self.policy_TSA[turn] * q[turn]).sum(axis=1)
        return float(self.start_S @ v[0]), q, v[:TURNS]

    def every_episode(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Probability under the behaviour, states, actions and (mean) rewards of all episodes there are."""
        found = []
        for states in product(range(N_STATES), repeat=TURNS):
            for actions in product(range(N_ACTIONS), repeat=TURNS):
                chance = self.start_S[states[0]]
                for turn, (state, action) in enumerate(zip(states, actions, strict=True)):
                    chance *= self.behaviour_TSA[turn, state, action]
                    if turn + 1 < TURNS:
                        chance *= self.next_TSAS[turn, state, action, states[turn + 1]]
                found.append((chance, states, actions))
        states_BT, actions_BT = np.array([s for _, s, _ in found]), np.array([a for _, _, a in found])
        reward_BT = self.reward_TSA[np.arange(TURNS), states_BT, actions_BT]
        return np.array([chance for chance, _, _ in found]), states_BT, actions_BT, reward_BT

    def log_ratio(self, states_BT: np.ndarray, actions_BT: np.ndarray) -> np.ndarray:
        turns = np.arange(TURNS)
        chosen = (turns, states_BT, actions_BT)
        return np.log(self.policy_TSA[chosen]) - np.log(self.behaviour_TSA[chosen])

    def played(self, rng: np.random.Generator, *, tasks: int, siblings: int) -> LoggedTurns:
        """Episodes by the behaviour. A task is a start, which all of its episodes share."""
        n = tasks * siblings
        state_B = np.repeat(_drawn(rng, np.tile(self.start_S, (tasks, 1))), siblings)
        states, actions, rewards = [], [], []
        for turn in range(TURNS):
            action_B = _drawn(rng, self.behaviour_TSA[turn, state_B])
            states.append(state_B)
            actions.append(action_B)
            rewards.append(rng.random(n) < self.reward_TSA[turn, state_B, action_B])
            state_B = _drawn(rng, self.next_TSAS[turn, state_B, action_B])
        states_BT, actions_BT = np.stack(states, axis=1), np.stack(actions, axis=1)
        return self.logged(states_BT, actions_BT, np.stack(rewards, axis=1), np.repeat(np.arange(tasks), siblings))

    def logged(
        self, states_BT: np.ndarray, actions_BT: np.ndarray, reward_BT: np.ndarray, task_B: np.ndarray
    ) -> LoggedTurns:
        key_BT = states_BT + N_STATES * np.arange(TURNS)
        return LoggedTurns(
            episode_N=np.repeat(np.arange(len(states_BT)), TURNS),
            reward_N=reward_BT.astype(np.float64).ravel(),
            log_ratio_N=self.log_ratio(states_BT, actions_BT).ravel(),
            policy_logprob_N=np.log(self.policy_TSA[np.arange(TURNS), states_BT, actions_BT]).ravel(),
            state_N=key_BT.ravel(),
            history_N=key_BT.ravel(),
            action_N=actions_BT.ravel(),
            task_B=task_B,
        )


def _drawn(rng: np.random.Generator, chance_BA: np.ndarray) -> np.ndarray:
    return (rng.random((len(chance_BA), 1)) > chance_BA.cumsum(axis=1)[:, :-1]).sum(axis=1)
