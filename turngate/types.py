"""The data, in the order in which it flows.

    Task → Observation → Action, Completion → Turn → Trajectory     what happened
    Record → RewardEvent → Score                                    what it earned and what was paid
    Group → ScoredGroup → TurnTable → Batch                         what the learner sees

Each stage has its own type, so data that was not scored cannot reach credit. Everything is frozen; arrays are
numpy and must not be written to. Suffixes: ``_K`` tokens of one completion, ``_T`` turns of one trajectory, ``_B``
trajectories, ``_N`` all turns of a batch end to end, ``_L`` packed tokens, ``_S`` policy tokens of a batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import cached_property
from typing import Any, Literal, NotRequired, Protocol, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt

JSON: TypeAlias = None | bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"]
IntArray: TypeAlias = npt.NDArray[np.int32]
FloatArray: TypeAlias = npt.NDArray[np.float32]
ByteArray: TypeAlias = npt.NDArray[np.uint8]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
SUCCESS_SLACK = 1e-6  # how far rounding may keep an outcome from the one that counts as success


def derive_seed(*parts: int | str) -> int:
    """A 63-bit seed from any path such as ``(run, step, task, sibling, turn)``; the same path gives the same seed."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "big") >> 1


def storable(text: str, most: int | None = None) -> str:
    """A text that every file and tokenizer takes: ``text`` with ``?`` for each lone surrogate. Of more than ``most``
    characters the first are kept, before a mark that says how many are missing."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            text = text.encode(errors="replace").decode()
    cut = 0 if most is None else len(text) - most
    return text if cut <= 0 else f"{text[:most]}\n[… {cut} more characters …]"


# --- what happened ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One problem. ``private`` (gold answers, hidden tests) never reaches an observation, a log or a prompt."""

    id: str  # unique within its environment; reports and commands name it by this
    env_id: str  # under which its environment is registered, as in ``acme/Order-v0``
    prompt: str  # the text of the problem; the environment decides what of it is shown
    private: Mapping[str, Any] = field(default_factory=dict, repr=False)  # what grades it
    hints: tuple[str, ...] = field(default=(), repr=False)  # texts that help, weakest first
    split: str = "train"  # no question is in two splits
    question: str = ""  # what is asked, equal for tasks that ask the same; "" = the prompt says it


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What is new for the agent this turn. Equal environment states carry equal, non-empty ``state_key``."""

    text: str  # what the agent reads
    images: tuple[bytes, ...] = ()  # PNG, JPEG, GIF, WebP, stored as they are; a policy of text alone refuses them
    state_key: str = ""  # where equal, equal actions lead to equal results; "" = unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call that the parser found in an action."""

    name: str  # that of the tool
    arguments: Mapping[str, Any]  # name → value, as it was written


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """The agent's text, and what the parser read in it. ``text`` is byte for byte what the model wrote."""

    text: str  # all that was written, thought included
    thought: str = ""  # the part before the call, or between marks of a thought
    calls: tuple[ToolCall, ...] = ()  # the calls that were read, in their order
    parse_error: str | None = None  # why no call could be read, in words for the agent
    flaw: str = ""  # a deviation from the tool format that could still be read; rewards for form want none

    @property
    def cut_off(self) -> bool:
        """Whether the turn reached its token limit before its end: then no environment may act by its text."""
        return self.parse_error == CUT_OFF


class EndedBy(StrEnum):
    """Why a completion stopped."""

    STOP = "stop"  # the model wrote its end-of-turn token
    LENGTH = "length"  # the token budget of the turn ran out before its end; such a turn is not carried out
    SCRIPT = "script"  # the text was given, not sampled


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Completion:
    """Tokens of one turn as sampled. ``logprobs_K`` are the sampler's own, at its temperature, never recomputed.

    A server that gives text alone says nothing of its tokens: then both are empty, and nothing can be learned from it.
    Lists of numbers become arrays."""

    ids_K: IntArray
    logprobs_K: FloatArray
    ended_by: EndedBy
    policy_version: int
    text: str = ""

    def __post_init__(self) -> None:
        for name, kind in (("ids_K", np.int32), ("logprobs_K", np.float32)):
            if not isinstance(getattr(self, name), np.ndarray):
                object.__setattr__(self, name, np.array(getattr(self, name), kind))
        if self.ids_K.shape != self.logprobs_K.shape or self.ids_K.ndim != 1:
            raise ValueError(f"ids_K {self.ids_K.shape} and logprobs_K {self.logprobs_K.shape} must be equal and flat")

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Completion)
            and np.array_equal(self.ids_K, other.ids_K)
            and np.array_equal(self.logprobs_K, other.logprobs_K, equal_nan=True)
            and (self.ended_by, self.policy_version, self.text) == (other.ended_by, other.policy_version, other.text)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A measured fact, not a grade. ``value=None`` means that it could not be measured, which is not zero. ``turn`` is
    the index of the turn that it is about, or None for the whole episode."""

    name: str  # what was measured; a rubric reads it by this name
    value: JSON  # the fact; None = could not be measured
    turn: int | None = None  # the turn that it is about; None = the whole episode
    by: Literal["env", "verifier", "judge"] = "env"  # who measured it


FAULT = "agent_fault"  # the evidence that says how the agent broke its episode; recorded only where it did
CUT_OFF = "your turn was too long, so it was cut off and not carried out; write less"  # ``Action.cut_off`` reads this
ANSWER = "answer"  # the evidence about the whole episode that says what the environment took as its answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Guidance:
    """Help that a trajectory received. ``strip_for_train``: learn under the context without it. ``joins``: its credit
    is compared with that of the unguided siblings, not with that of equally guided ones."""

    kind: str
    level: int
    text: str
    source: str
    insert_turn: int = 0
    strip_for_train: bool = False
    joins: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Who played an episode that a step only replays: a step of a run, with a version of the policy. ``joins``: its
    credit is compared with that of the fresh siblings, not with that of others of this version."""

    run: str
    step: int
    version: int
    joins: bool = False


class Source(IntEnum):
    """Who wrote a token. Only POLICY tokens carry policy-gradient credit."""

    CONTEXT = 0
    POLICY = 1
    GUIDE = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Turn:
    """One exchange: ``context_ids`` are the tokens added before the model spoke, ``completion`` what it said;
    ``source`` (uint8, one per context token and then per completion token) says who wrote each."""

    observation: Observation
    context_ids: IntArray
    completion: Completion
    source: ByteArray
    action: Action
    guidance: Guidance | None = None

    def __post_init__(self) -> None:
        expected = len(self.context_ids) + len(self.completion.ids_K)
        if self.source.shape != (expected,):
            raise ValueError(f"source has shape {self.source.shape}, expected ({expected},): one entry per token")

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Turn)
            and np.array_equal(self.context_ids, other.context_ids)
            and np.array_equal(self.source, other.source)
            and (self.observation, self.completion, self.action, self.guidance)
            == (other.observation, other.completion, other.action, other.guidance)
        )


class Ending(StrEnum):
    """How an episode ended; exactly one per trajectory."""

    FINISHED = "finished"  # the agent or the task ended it
    MAX_TURNS = "max_turns"  # cut short: the turn limit
    TOKEN_BUDGET = "token_budget"  # cut short: no room left in the context
    TIME_BUDGET = "time_budget"  # cut short: the episode's wall-clock limit
    AGENT_FAULT = "agent_fault"  # a failure: what the agent did broke the episode, so nothing could be measured
    ENV_ERROR = "env_error"  # unusable: the environment broke
    VERIFIER_ERROR = "verifier_error"  # unusable: the outcome could not be measured
    POLICY_ERROR = "policy_error"  # unusable: the sampler failed

    @property
    def terminated(self) -> bool:
        """The task is over: by its own rules, or because the agent broke it."""
        return self in (Ending.FINISHED, Ending.AGENT_FAULT)

    @property
    def truncated(self) -> bool:
        """Cut short from outside; the work so far still counts."""
        return self in (Ending.MAX_TURNS, Ending.TOKEN_BUDGET, Ending.TIME_BUDGET)

    @property
    def usable(self) -> bool:
        """Whether the episode says anything about the policy."""
        return self.terminated or self.truncated


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """All that a rubric may read: facts in the order in which they were measured. Needs no model and no sandbox."""

    task_id: str
    n_turns: int
    ending: Ending
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """One episode. ``evidence`` is all that was measured, in that order; each fact says which turn it is about."""

    id: str  # unique within its run
    task: Task  # what was played
    turns: tuple[Turn, ...]  # in their order
    ending: Ending  # how it ended
    seed: int  # of environment and sampling
    evidence: tuple[Evidence, ...] = ()
    guidance: Guidance | None = None  # the help that it got; None = none
    parent: tuple[str, int] | None = None  # the episode that it branched off, and before which turn
    error: str = ""  # what broke, where it is unusable
    replay: Replay | None = None  # None: played in the step that learns from it; never stored

    def record(self) -> Record:
        """The facts of this episode, as a rubric reads them."""
        return Record(task_id=self.task.id, n_turns=len(self.turns), ending=self.ending, evidence=self.evidence)

    @property
    def cohort(self) -> tuple[str, tuple[str, int] | None, tuple[str, int] | None]:
        """The key of its siblings with the same baseline: the task, kind and level of the guidance (None = unguided, or
        joins), and who played a replayed episode (None = fresh, or joins)."""
        guidance, replay = self.guidance, self.replay
        helped = None if guidance is None or guidance.joins else (guidance.kind, guidance.level)
        return self.task.id, helped, None if replay is None or replay.joins else (replay.run, replay.version)

    def facts_of(self, turn: int | None) -> tuple[Evidence, ...]:
        """The facts about one turn, whenever they were measured; None: those about the whole episode."""
        return tuple(fact for fact in self.evidence if fact.turn == turn)

    def answer(self) -> str | None:
        """What the environment took as the answer, text; None where there was none, or the episode broke before."""
        facts = (fact for fact in reversed(self.evidence) if fact.name == ANSWER and fact.by == "env")
        value = next((fact.value for fact in facts if fact.turn is None), None)
        return value if isinstance(value, str) else None

    def ids(self) -> IntArray:
        """Every token that the model saw or wrote, in order: int32[L]."""
        parts = [part for turn in self.turns for part in (turn.context_ids, turn.completion.ids_K)]
        return np.concatenate(parts).astype(np.int32) if parts else np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardEvent:
    """One line of the ledger. Gates change only ``factor`` and ``gate``, the name of the gate that cut it.

    ``value`` is the verdict as it was measured and ``weight`` the component's; ``share`` is the part of the weight that
    this verdict earns: 1/n for a component that pays the mean of its n verdicts."""

    name: str  # of the component
    kind: Literal["outcome", "process", "penalty"]  # what it is paid for
    turn: int | None  # on which it is paid; None = for the episode
    value: float
    weight: float
    share: float = 1.0
    factor: float = 1.0
    gate: str = ""

    @property
    def earned(self) -> float:
        """What the component gave before any gate."""
        return self.value * self.weight * self.share

    @property
    def paid(self) -> float:
        """What counts."""
        return self.value * self.weight * self.share * self.factor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Score:
    """A settled ledger. Invariant: ``reward_T.sum() == sum(event.paid)``; episode events are paid on the last turn.

    ``outcome`` is the earned value of the outcome components (None when unmeasured); not ``usable``, as ``problem``
    says: needed evidence is missing or the episode broke. ``success``: the task is solved (default: the outcome is 1).
    """

    ledger: tuple[RewardEvent, ...]
    reward_T: FloatArray
    outcome: float | None
    usable: bool
    problem: str = ""
    success: bool | None = None
    missing: tuple[str, ...] = ()  # process and penalty components of which a verdict was due and could not be had
    filled: Score | None = None  # what it would have been paid if these were the siblings' mean; None: nothing to fill

    def __post_init__(self) -> None:
        if self.success is None:
            object.__setattr__(self, "success", self.usable and (self.outcome or 0.0) >= 1.0 - SUCCESS_SLACK)

    @property
    def total(self) -> float:
        """Everything paid in the episode."""
        return float(sum(event.paid for event in self.ledger))

    @property
    def compared(self) -> Score:
        """What the episode is compared by, and enters means by: lacking a verdict is neither good nor bad."""
        return self if self.filled is None else self.filled


class Info(TypedDict):
    """What an environment's ``reset``, ``step`` and ``finish`` tell besides observation and reward."""

    evidence: tuple[Evidence, ...]  # what was measured in this call, in that order
    ledger: tuple[RewardEvent, ...]
    score: Score | None  # by the environment's own rubric, with its ledger; empty and None until the episode is over
    task_id: str
    state_key: str  # that of the last observation
    ending: Ending | None  # None until the episode is over
    action: NotRequired[Action]
    learned: NotRequired[bool]  # after ``step``, with the action as read: whether it is learned from (``Outcome``)
    tools: NotRequired[tuple[Mapping[str, JSON], ...]]  # after ``reset``: as chat templates take them (``Tool.schema``)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Siblings: several trajectories of one task under one plan."""

    task: Task  # that all of them played
    trajectories: tuple[Trajectory, ...]

    def __post_init__(self) -> None:
        strangers = {trajectory.task.id for trajectory in self.trajectories} - {self.task.id}
        if strangers:
            raise ValueError(f"group of task '{self.task.id}' holds trajectories of {sorted(strangers)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredGroup:
    """A group with one score per trajectory, in the same order."""

    task: Task
    trajectories: tuple[Trajectory, ...]
    scores: tuple[Score, ...]

    def __post_init__(self) -> None:
        if len(self.trajectories) != len(self.scores):
            raise ValueError(f"{len(self.trajectories)} trajectories but {len(self.scores)} scores")


# --- what the learner sees -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class TurnTable:
    """All turns of a batch as columns, trajectories end to end, each in turn order.

    ======== ======= =====================================================================================
    column   dtype   meaning
    ======== ======= =====================================================================================
    reward_N  float32 paid at this turn, episode payments on the last turn
    process_N float32 mean of the turn's open process verdicts, in their own units; NaN = no verdict
    open_N    bool    False where there are process verdicts on the turn and gates closed every one of them
    traj_N    int32   index of the trajectory, 0..B-1, non-decreasing
    index_N   int32   index of the turn inside its trajectory
    state_N   int64   anchor state before acting (hash of the state key); -1 = unknown
    outcome_B float32 outcome of each trajectory
    cohort_B  int32   trajectories that share a baseline: same task, same kind and level of guidance
    ======== ======= =====================================================================================

    In ``process_N`` each verdict has the weight |w| of its component, relative to the others of the turn, and the sign
    of w, so a charge counts against the turn. It is never multiplied by a weight and never divided by the number of
    turns, so equal verdicts are equal in episodes of every length. Where all are closed it is the mean of the closed
    ones. A process payment for a whole episode is no verdict on its last turn: it is in ``reward_N`` only.

    ``measured`` holds what only some methods need, by name; the suffix says the shape. ``tabulate`` fills in

    * ``tokens_N`` int32, policy tokens of the turn, and ``surprisal_N`` float32, the mean of −logprob over them in nats
      (an unbiased estimate of the sampler's entropy; NaN without policy tokens);
    * ``parent_B`` int32, the trajectory of this batch that one branched off (−1 = none), and ``branch_B`` int32, the
      turn at which they part (the number of turns that they share);
    * ``won_B`` bool, whether it is a success by its rubric, and no gate closed the payment for it;
    * ``settled_B`` float32, what was paid beside the process: outcome after all gates, penalties and the floor of a
      veto. With the paid process it is the total; ``outcome_B`` is before gates and counts a vetoed cheat as a success;
    * ``process_paid_N`` float32, what the process verdicts on the turn were paid, whichever turn it was booked on;
    * ``unplaced_B`` float32, what was paid to an episode without turns, where no turn can hold it; 0 for all others;
    * ``paid/NAME_B`` float32, what the component NAME was paid in the episode after all gates; NaN = not measured;
    * ``act_N`` and ``said_N`` int64, hashes of what was done in which state, and of the token ids of the turn.

    An episode without turns is a result like any other, in every column ``_B`` and in the baseline of its cohort.

    Other code may add further columns. ``turngate.trainer.signals`` measures, for rules that read them:

    ============== ===================================================== ===============================================
    column         meaning                                               supplied by
    ============== ===================================================== ===============================================
    value_N        value of the state before the turn                    a critic (``[value]``)
    bootstrap_B    value after the last turn of a truncated episode      the same
    logratio_N     Σ log π/π_ref over the turn's policy tokens           an implicit reward model, or the policy itself
    gain_N         what the turn added to the belief in the right        the policy, asked for the answer
                   answer; NaN on the last turn
    entropy_N      mean entropy per policy token in nats                 a forward pass (``signals.entropy = "exact"``)
    format_N       1 = the turn's tool call was well formed and executed evidence (``signals.evidence``)
    grounded_N     1 = the turn's action was executed                    evidence (``signals.evidence``)
    similar_N      anchor of states that are alike, −1 = unknown         a comparison of states (``signals.similar``)
    kl_N           Σ log π/π_ref over the turn's policy tokens           a frozen model (``signals.kl_in_reward``)
    tag_N          what the step says that it does (``rlvmr.Tag``)       evidence (``signals.evidence``)
    accuracy_N     chance of the right answer if forced after the turn   evidence (``signals.evidence``)
    confidence_N   how sure the policy then is of its answer             evidence (``signals.evidence``)
    ============== ===================================================== ===============================================

    Columns ``_S`` have one entry per policy token of the batch, in order (``value_S``, ``logratio_S``, ``entropy_S``,
    ``surprisal_S``, ``sharing_S``: siblings that agree up to the token); ``turn_S`` says which row each belongs to."""

    reward_N: FloatArray
    process_N: FloatArray
    open_N: BoolArray
    traj_N: IntArray
    index_N: IntArray
    state_N: npt.NDArray[np.int64]
    outcome_B: FloatArray
    cohort_B: IntArray
    measured: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)

    @property
    def n_turns(self) -> int:
        """N, the number of turns."""
        return int(self.reward_N.shape[0])

    @property
    def n_trajectories(self) -> int:
        """B, the number of trajectories."""
        return int(self.outcome_B.shape[0])

    @cached_property
    def total_B(self) -> npt.NDArray[np.float64]:
        """Everything paid to each trajectory, also to one without turns, in float64."""
        total_B = np.bincount(self.traj_N, weights=self.reward_N.astype(np.float64), minlength=self.n_trajectories)
        return np.add(total_B, self.measured.get("unplaced_B", 0.0), dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenCredit:
    """Credit by token: one number per policy token of the batch, in order, and ``turn_S``, its row of the table."""

    advantage_S: FloatArray
    turn_S: IntArray

    def __post_init__(self) -> None:
        if self.advantage_S.shape != self.turn_S.shape or self.turn_S.ndim != 1:
            raise ValueError(f"shapes {self.advantage_S.shape}, {self.turn_S.shape}: must be equal and flat")

    def per_turn(self, n_turns: int) -> FloatArray:
        """The mean over the tokens of each turn, 0 for a turn without any, for people and comparisons: float32[N]."""
        count_N = np.bincount(self.turn_S, minlength=n_turns)
        sum_N = np.bincount(self.turn_S, weights=self.advantage_S, minlength=n_turns)
        return (sum_N / np.maximum(count_N, 1)).astype(np.float32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """Flat token arrays; segments (one trajectory each) end to end. The learner knows nothing else.

    The loss is a plain sum, and its whole normalisation is in ``…weight_L``: how a batch is cut changes no gradient.
    Index ``l`` is about token ``l``: its id, the sampler's logprob of it, its credit, its ``trainer.contexts.Origin``.
    """

    ids_L: IntArray
    logprob_L: FloatArray
    advantage_L: FloatArray
    policy_weight_L: FloatArray
    ce_weight_L: FloatArray
    position_L: IntArray
    segment_L: IntArray
    turn_L: IntArray
    origin_L: ByteArray

    @property
    def n_tokens(self) -> int:
        """L, the number of tokens."""
        return int(self.ids_L.shape[0])

    @property
    def n_segments(self) -> int:
        """How many trajectories were packed."""
        return int(self.segment_L[-1]) + 1 if self.n_tokens else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """The distribution that a policy samples from, and under which a learner measures log-probabilities.

    ``temperature`` 0 takes the likeliest token. ``top_p`` < 1 and ``top_k`` > 0 cut the distribution (see
    ``turngate.agents.policies.truncation``). Raises ValueError for both together: a cut would have no effect.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0

    def __post_init__(self) -> None:
        if self.temperature == 0 and self.truncates:
            cuts = f"top_p={self.top_p} and top_k={self.top_k}"
            raise ValueError(f"temperature 0 takes the likeliest token, so {cuts} have no effect; leave them out")

    @property
    def truncates(self) -> bool:
        """Whether less than the whole vocabulary is sampled from."""
        return self.top_p < 1 or self.top_k > 0

    @property
    def whole(self) -> Sampling:
        """The same temperature over the whole vocabulary."""
        return Sampling(temperature=self.temperature)


PLAIN = Sampling()  # the model's own distribution: temperature 1 over the whole vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What one party of a conversation said. The role ``tool`` answers all calls of the turn before it."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    calls: tuple[ToolCall, ...] = ()  # what an assistant called, as it was read of ``content``
    images: tuple[bytes, ...] = ()  # those of the observation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Request:
    """A policy's work order for one turn. ``ids`` is the whole context; ``episode`` lets an engine find its cache."""

    episode: str
    task_id: str
    ids: IntArray
    turn: int
    seed: int
    max_tokens: int
    sampling: Sampling = PLAIN
    messages: tuple[Message, ...] = ()  # the context as text and images, for policies behind a server
    tools: tuple[Mapping[str, JSON], ...] = ()  # shown to the model (``Tool.schema``); () = the text names them


Metrics: TypeAlias = dict[str, float]


class Credit(Protocol):
    """Rewards in, one number per turn out: float32[N]. Pure; configured by keyword."""

    def __call__(self, table: TurnTable) -> FloatArray:
        """The credit of every turn of ``table``, in its order."""


class TokenRule(Protocol):
    """Rewards in, one number per policy token out. Pure; configured by keyword."""

    def __call__(self, table: TurnTable) -> TokenCredit:
        """The credit of every policy token, from the table's columns ``_S``."""
