"""Every exception that turngate raises on purpose, in one tree.

    TurngateError
    ├── UserError            the caller can fix it: a setting, a name, a file. The CLI prints one line, exit code 2.
    │   ├── ConfigError      an unknown key, a value out of range, a setting without effect
    │   ├── UnknownName      an id, credit rule, gate or component that is not registered
    │   ├── DuplicateName    a name that is already taken
    │   ├── DataError        a malformed row or file: names file, line and field
    │   ├── MissingExtra     an optional dependency is not installed: names the pip command
    │   ├── TaskRefused      a task that cannot be used: its tests tell nothing, its reference fails
    │   ├── EstimateRefused  a value that recorded episodes cannot tell, with the reason
    │   └── ReplayRefused    what was recorded cannot be done again, with the reason
    ├── EpisodeError         one episode cannot be used; the run goes on, the episode is counted apart
    │   ├── EnvError         the environment broke, and nothing that the agent did can be the cause
    │   ├── VerifierError    the outcome could not be measured
    │   ├── PolicyError      the sampler failed
    │   │   └── OutOfRoom    the episode does not fit into its context any more: it ends there, cut short
    │   └── AgentFault       what the agent did broke the episode: a failure, not an episode without a result
    └── RunError             the run itself cannot be trusted any more and stops
        ├── MismatchError    sampler and learner disagree about the same tokens
        ├── NotFiniteError   several updates in a row had a loss or a gradient that is not finite
        ├── OutOfMemory      learner or sampler need more memory than there is: names settings that need less
        ├── ProcessLost      a process that the run needs died or does not answer: it can go on from its checkpoint
        ├── StoreError       something recorded is missing or damaged
        │   └── WriteError   a file cannot be written: the disk is full, read-only or gone
        ├── PartError        a part returned something that cannot be used
        └── ShapeError       arrays that do not fit together: a bug in the caller's code

A bad answer of the agent is none of these: it is an observation, and evidence.
"""

import difflib
from collections.abc import Iterable
from typing import Any

NAME_CHARS = 200  # most characters of an unknown name in a message


class TurngateError(Exception):
    """Root of the tree. Errors travel between processes, whatever arguments their constructors take."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[TurngateError], args: tuple[Any, ...], state: dict[str, Any]) -> TurngateError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class UserError(TurngateError):
    """Something the caller wrote or passed has to change."""


class ConfigError(UserError):
    """A setting that is unknown, out of range or without effect."""


class UnknownName(UserError):
    """A name that nothing is registered under; the message carries the closest ones."""

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str = "") -> None:
        options = sorted(set(known))
        close = difflib.get_close_matches(name, options, n=3, cutoff=0.4)
        if close:
            advice = "did you mean " + " or ".join(f"'{option}'" for option in close) + "?"
        else:
            advice = "known: " + (", ".join(options) or "none") + (";" if hint else "")
        shown = name if len(name) <= NAME_CHARS else f"{name[:NAME_CHARS]}…"
        super().__init__(f"unknown {kind} '{shown}'; {advice}" + (f" {hint}" if hint else ""))
        self.kind, self.name, self.close = kind, name, tuple(close)


class DuplicateName(UserError):
    """A name that is taken; registering never overwrites."""


class DataError(UserError):
    """A file or row that cannot be read as what it should be."""

    def __init__(self, path: object, problem: str, *, line: int | None = None, field: str | None = None) -> None:
        where = str(path) + (f", line {line}" if line is not None else "") + (f", field '{field}'" if field else "")
        super().__init__(f"{where}: {problem}")
        self.path, self.line, self.field = str(path), line, field


class MissingExtra(UserError, ImportError):
    """A missing optional dependency of the called feature."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"'{package}' is not installed; run: pip install \"turngate[{extra}]\"")
        self.package, self.extra = package, extra


class TaskRefused(UserError):
    """A task that cannot be used, with the reason."""


class EstimateRefused(UserError):
    """The recorded episodes cannot tell the policy's return; the message has the reason."""


class ReplayRefused(UserError):
    """A recording cannot be replayed; the message says why."""


class EpisodeError(TurngateError):
    """One episode cannot be used. It is dropped and counted; it is never scored zero."""


class EnvError(EpisodeError):
    """The environment broke."""


class VerifierError(EpisodeError):
    """The outcome of the episode could not be measured."""


class PolicyError(EpisodeError):
    """The policy could not produce a completion."""


class OutOfRoom(PolicyError):
    """The episode is too long for the engine's context. It ends as ``Ending.TOKEN_BUDGET`` and is scored as it is, but
    one in which the policy had no turn yet is unusable."""


class AgentFault(EpisodeError):
    """The agent broke the episode, or its verifier; the message says how.

    Unlike its siblings it is a result: the episode ends as ``Ending.AGENT_FAULT`` and is scored as the worst there is,
    so that no agent can remove its failures from its mean.
    """


class RunError(TurngateError):
    """The run cannot be trusted any more."""


class MismatchError(RunError):
    """Sampler and learner give different log-probabilities for the same tokens."""


class NotFiniteError(RunError):
    """Several updates in a row were skipped, because a loss or a gradient was not finite."""


class ProcessLost(RunError):
    """A process that the run needs has died, or does not answer; the run can go on from its last checkpoint."""


class OutOfMemory(RunError):
    """Learner or sampler need more memory than there is; the message names settings that need less."""


class StoreError(RunError):
    """A record of a run is missing, damaged or would be overwritten."""


class WriteError(StoreError):
    """A file cannot be written: the disk is full, read-only or gone. Files that were written before it stay as they
    were."""

    def __init__(self, path: object, problem: str) -> None:
        super().__init__(f"'{path}' cannot be written: {problem}")
        self.path = str(path)


class PartError(RunError, ValueError):
    """A part, often a user's own, returned something that cannot be used; the message names the part and what it must
    return."""


class ShapeError(RunError, ValueError):
    """Arrays whose shapes or values do not fit together."""
