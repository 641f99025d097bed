"""Small decision processes, written as tables of edges. Nothing here is random or sampled.

An edge pays ``outcome`` (what a verifier says about the episode), and may carry a process verdict. The trainer is paid
``outcome + process_weight · process``; in a gated process the second part only in episodes whose outcome reaches 1.
``truth`` is what the edge is really worth. It differs from the payment where the reward can be hacked or is wrong.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

NO_VERDICT = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """One thing that can happen after an action. ``to=None`` ends the episode."""

    to: str | None = None
    probability: float = 1.0
    outcome: float = 0.0
    process: float = NO_VERDICT
    truth: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process: ``edges`` by (state, number of the action), ``tasks`` as probabilities of start states.

    The policy sees ``observations[state]``, which is the state itself where nothing is said, and never the time. An
    episode is cut after ``max_turns``. ``book_last``: process payments stand on the last turn, as ``Rubric.book_last``
    has it. ``fork_turns`` are the turns after which tree rollouts may branch.
    ``logit_scale`` sets how far the policy at which gradients are compared lies from the uniform one.
    """

    name: str
    actions: tuple[str, ...]
    tasks: Mapping[str, float]
    edges: Mapping[tuple[str, int], tuple[Edge, ...]]
    max_turns: int
    process_weight: float = 0.0
    gated: bool = False
    book_last: bool = False
    observations: Mapping[str, str] = field(default_factory=dict)
    fork_turns: tuple[int, ...] = (1,)
    logit_scale: float = 0.5

    def observation(self, state: str) -> str:
        """What the policy sees in ``state``."""
        return self.observations.get(state, state)


def key_door_treasure() -> Process:
    """Take the key, open the door, take the treasure. Wrong tools waste a turn of six, leaving ends with nothing.

    The verdict of a turn is 1 if it moved ahead and 0 if it did not; it is recorded and not paid.
    """
    stay = {state: (Edge(to=state, process=0.0),) for state in ("hall", "key", "vault")}
    leave, treasure = (Edge(process=0.0),), (Edge(outcome=1.0, truth=1.0, process=1.0),)
    edges = {
        ("hall", 0): (Edge(to="key", process=1.0),),
        ("hall", 1): stay["hall"],
        ("key", 0): stay["key"],
        ("key", 1): (Edge(to="vault", process=1.0),),
        ("vault", 0): treasure,
        ("vault", 1): stay["vault"],
    } | {(state, 2): leave for state in stay}
    actions = ("take", "open", "leave")
    return Process(
        name="key-door", actions=actions, tasks={"hall": 1.0}, edges=edges, max_turns=6, fork_turns=(1, 2)
    )  # fmt: skip


def branching_tree() -> Process:
    """Three binary choices in each of two tasks: five of eight leaves pay in the easy one, one in the hard one."""
    paying = {"easy": {"000", "001", "010", "100", "111"}, "hard": {"101"}}
    edges: dict[tuple[str, int], tuple[Edge, ...]] = {}
    for task, leaves in paying.items():
        for depth in range(3):
            for node in range(2**depth):
                way = format(node, f"0{depth}b") if depth else ""
                for action in (0, 1):
                    pay = float(way + str(action) in leaves)
                    last = (Edge(outcome=pay, truth=pay),)
                    onward = (Edge(to=f"{task}:{way}{action}"),)
                    edges[f"{task}:{way}", action] = last if depth == 2 else onward
    tasks = {"easy:": 0.5, "hard:": 0.5}
    return Process(name="tree", actions=("left", "right"), tasks=tasks, edges=edges, max_turns=3, fork_turns=(1, 2))


def stopping() -> Process:
    """Stop for nothing, or go on and be paid 0.75 or 0.25 by the next action. The policy decides which turns exist.

    At the uniform policy the exact gradient on the logit of "go on" is ½ · ½ · 0.5 = 0.125.
    """
    edges = {
        ("door", 0): (Edge(to="room", process=0.0),),
        ("door", 1): (Edge(process=0.0),),
        ("room", 0): (Edge(process=0.75, truth=0.75),),
        ("room", 1): (Edge(process=0.25, truth=0.25),),
    }
    return Process(
        name="stopping", actions=("go on", "stop"), tasks={"door": 1.0}, edges=edges, max_turns=2, process_weight=1.0,
        logit_scale=0.0,
    )  # fmt: skip


def hackable(gated: bool = False) -> Process:
    """Work, then finish, is what counts; a judge also praises empty activity, half an outcome per turn.

    Farming praise until the five turns are over pays 2.5, working and finishing at once 1.25. With ``gated`` praise is
    paid only in episodes that succeed.
    """
    praise, poor, fair = 1.0, 0.0, 0.5
    edges = {
        ("desk", 0): (Edge(to="draft", process=fair),),
        ("desk", 1): (Edge(to="desk", process=praise),),
        ("desk", 2): (Edge(process=poor),),
        ("draft", 0): (Edge(to="draft", process=poor),),
        ("draft", 1): (Edge(to="draft", process=praise),),
        ("draft", 2): (Edge(outcome=1.0, truth=1.0, process=poor),),
    }
    return Process(
        name="hackable", actions=("work", "farm", "finish"), tasks={"desk": 1.0}, edges=edges, max_turns=5,
        process_weight=0.5, gated=gated,
    )  # fmt: skip


def delayed() -> Process:
    """The first of four turns decides; in between, payments that nobody controls. The middle looks the same either way.

    What the policy sees does not tell whether the first choice was right, so states that look equal are not.
    """
    edges: dict[tuple[str, int], tuple[Edge, ...]] = {
        ("start", 0): (Edge(to="right1"),),
        ("start", 1): (Edge(to="wrong1"),),
    }
    for branch, pay in (("right", 1.0), ("wrong", 0.0)):
        for turn in (1, 2, 3):
            after = f"{branch}{turn + 1}" if turn < 3 else None
            end = pay if turn == 3 else 0.0
            coin = tuple(
                Edge(to=after, probability=0.5, process=side, outcome=end, truth=end) for side in (-1.0, 1.0)
            )  # fmt: skip
            edges[f"{branch}{turn}", 0] = edges[f"{branch}{turn}", 1] = coin
    observations = {f"{branch}{turn}": f"wait{turn}" for branch in ("right", "wrong") for turn in (1, 2, 3)}
    return Process(
        name="delayed", actions=("a", "b"), tasks={"start": 1.0}, edges=edges, max_turns=4, process_weight=0.2,
        observations=observations,
    )  # fmt: skip


def noisy_verifier() -> Process:
    """A plan, then an answer. The verifier accepts 80 % of the right answers, and 25 % of the wrong ones."""
    right = {"good": (0.95, 0.6, 0.3), "fair": (0.6, 0.4, 0.2), "poor": (0.1, 0.1, 0.1)}
    accepts_right, accepts_wrong = 0.8, 0.25
    edges: dict[tuple[str, int], tuple[Edge, ...]] = {
        ("plan", action): (Edge(to=plan),) for action, plan in enumerate(right)
    }
    for plan, chances in right.items():
        for action, chance in enumerate(chances):
            cells = (
                (1.0, 1.0, chance * accepts_right),
                (1.0, 0.0, chance * (1 - accepts_right)),
                (0.0, 1.0, (1 - chance) * accepts_wrong),
                (0.0, 0.0, (1 - chance) * (1 - accepts_wrong)),
            )
            edges[plan, action] = tuple(Edge(truth=truth, outcome=seen, probability=p) for truth, seen, p in cells)
    return Process(name="noisy", actions=("x", "y", "z"), tasks={"plan": 1.0}, edges=edges, max_turns=2)


def all_processes() -> tuple[Process, ...]:
    """The processes of the laboratory, in the order of its tables."""
    gated = replace(hackable(gated=True), name="gated")
    return (key_door_treasure(), branching_tree(), stopping(), hackable(), gated, delayed(), noisy_verifier())
