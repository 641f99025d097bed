"""The whole loop in one file, of torch alone: an environment, a rollout, credit by turn, an update.

    python examples/one_file.py            # half a minute on a CPU
    python examples/one_file.py --rule trajectory

The agent looks for a number from 0 to 14. In each turn it writes a number and reads "higher" or "lower"; after four
turns without success the episode is over. Four turns are enough if each halves what is left, which the agent has to
find out. The environment pays 1 for the number, and 0.1 for each bit by which an answer narrows down what is left.
All 15 numbers are trained and tested, and both rules learn: the file shows the steps, not that one rule is better.

What turngate adds to these steps is in docs/contents.md: a real language model, gates, guidance, replay, scale.
"""

import argparse
import math

import torch
from torch import Tensor, nn

NUMBERS, TURNS, SIBLINGS, TASKS, UPDATES = 15, 4, 16, 16, 400
ENTROPY = 0.06  # keeps the policy trying; without it, it settles on 80 to 93 %
START, HIGHER, LOWER = NUMBERS, NUMBERS + 1, NUMBERS + 2  # what the agent reads; its own words are the numbers


class Guess:
    """Find ``secret``. A step returns what the agent reads next, what the turn is paid, and whether it was the last."""

    def __init__(self, secret: int) -> None:
        self.secret, self.low, self.high, self.solved = secret, 0, NUMBERS, False

    def step(self, number: int) -> tuple[int, float, bool]:
        before = self.high - self.low
        if number == self.secret:
            self.solved = True
            return START, 1.0, True
        if number < self.secret:
            self.low = max(self.low, number + 1)
        else:
            self.high = min(self.high, number)
        reading = HIGHER if number < self.secret else LOWER
        return reading, 0.1 * math.log2(before / (self.high - self.low)), False


class Policy(nn.Module):
    """A recurrent language model: it reads its own last number and the answer, and scores each number as the next."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.words = nn.Embedding(NUMBERS + 3, width)
        self.memory = nn.GRUCell(2 * width, width)
        self.head = nn.Linear(width, NUMBERS)

    def forward(self, own_B: Tensor, read_B: Tensor, state_BD: Tensor) -> tuple[Tensor, Tensor]:
        state_BD = self.memory(torch.cat([self.words(own_B), self.words(read_B)], dim=-1), state_BD)
        return torch.log_softmax(self.head(state_BD), dim=-1), state_BD


def play(policy: Policy, secrets: list[int], greedy: bool = False) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """An episode for each secret, all at once: log-probabilities, payments and a mask by turn, and success."""
    worlds, over = [Guess(secret) for secret in secrets], [False] * len(secrets)
    own_B = read_B = torch.full((len(secrets),), START)
    state_BD = torch.zeros(len(secrets), policy.head.in_features)
    logprobs, payments, played = [], [], []
    for _ in range(TURNS):
        scores_BV, state_BD = policy(own_B, read_B, state_BD)
        own_B = scores_BV.argmax(-1) if greedy else torch.multinomial(scores_BV.exp(), 1).squeeze(-1)
        played.append(torch.tensor([not ended for ended in over]))
        logprobs.append(scores_BV.gather(-1, own_B[:, None]).squeeze(-1))
        paid, read = [0.0] * len(worlds), [START] * len(worlds)
        for place, (world, number) in enumerate(zip(worlds, own_B.tolist(), strict=True)):
            if not over[place]:
                read[place], paid[place], over[place] = world.step(number)
        payments.append(torch.tensor(paid))
        read_B = torch.tensor(read)
    success_B = torch.tensor([world.solved for world in worlds])
    return torch.stack(logprobs, 1), torch.stack(payments, 1), torch.stack(played, 1), success_B


def credit_of_turns(paid_GST: Tensor, played_GST: Tensor) -> Tensor:
    """A turn earns what is paid from it on, less the mean of what its siblings earn from their own turn t on.

    ``A[s, t] = G[s, t] − mean over siblings s' ≠ s that played turn t of G[s', t]``, ``G[s, t] = Σ_{u ≥ t} r[s, u]``;
    shapes (tasks, siblings, turns). A turn that no sibling played has no baseline, and no credit.
    """
    returns = paid_GST.flip(-1).cumsum(-1).flip(-1) * played_GST
    others = played_GST.sum(1, keepdim=True) - 1
    baseline = (returns.sum(1, keepdim=True) - returns) / others.clamp(min=1)
    return (returns - baseline) * played_GST * (others > 0)


def credit_of_trajectories(paid_GST: Tensor, played_GST: Tensor) -> Tensor:
    """The field's usual rule: each turn gets what the whole episode earned, less the mean of its siblings (RLOO)."""
    totals = paid_GST.sum(-1, keepdim=True)
    baseline = (totals.sum(1, keepdim=True) - totals) / (totals.shape[1] - 1)
    return (totals - baseline) * played_GST


RULES = {"turn": credit_of_turns, "trajectory": credit_of_trajectories}


def success(policy: Policy, greedy: bool) -> float:
    """The share of all numbers that are found, each looked for 40 times."""
    with torch.no_grad():
        return float(play(policy, list(range(NUMBERS)) * 40, greedy)[3].float().mean())


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rule", choices=RULES, default="turn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--updates", type=int, default=UPDATES)
    options = parser.parse_args(arguments)
    torch.manual_seed(options.seed)
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
    before = success(policy, greedy=False)
    print(f"before: {before:.0%} sampled, {success(policy, greedy=True):.0%} greedy")
    for update in range(1, options.updates + 1):
        tasks = torch.randint(NUMBERS, (TASKS,)).repeat_interleave(SIBLINGS).tolist()
        logprobs_BT, paid_BT, played_BT, success_B = play(policy, tasks)
        by_task = (TASKS, SIBLINGS, TURNS)
        credit_BT = RULES[options.rule](paid_BT.view(by_task), played_BT.view(by_task)).view_as(paid_BT)
        weight_BT = (credit_BT - ENTROPY * logprobs_BT.detach()) * played_BT  # the gradient of credit plus entropy
        loss = -(weight_BT * logprobs_BT).sum() / len(tasks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if update % 100 == 0:
            print(f"update {update}: {success_B.float().mean():.0%} of its episodes")
    after = success(policy, greedy=False)
    print(f"after:  {after:.0%} sampled, {success(policy, greedy=True):.0%} greedy")
    return before, after


if __name__ == "__main__":
    main()
