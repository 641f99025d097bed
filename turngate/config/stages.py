"""The stages of a run: each is an ordinary run in ``RUN/stages/``, with the settings of the whole file but for some.

``[[stages]]`` tables hold the keys that a stage changes. ``with_settings`` puts them over the others before anything is
validated, so defaults that follow from the settings of the whole run (a critic, filters) are not mistaken for the
user's own. ``unfold_stages`` makes the tree of each stage of each round, which is then parsed like that of any run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, TypeGuard

from pydantic import Field, model_validator

from turngate.config.sections import Section
from turngate.errors import UnknownName
from turngate.store.folder import RunFolder
from turngate.types import derive_seed

OF_THE_RUN = frozenset({"name", "folder", "seed", "method", "model", "warm_start", "sink", "stages", "rounds"})
"""Keys that belong to the run as a whole; the model and its warm start are where the first stage begins."""
BEGINNINGS = ("before", "first")
"""Values of ``begins_with`` besides the name of a stage."""
NOT_OF_A_STAGE = OF_THE_RUN - {"name", "warm_start"} | {"baselines", "controls"}
STORED = "stored"
OF_STAGE = "stage:"
"""Prefix of a model setting that means the model of an earlier stage, as stage:NAME."""


class StageEnd(Section):
    """When a stage ends before its train.steps, which stay the most that it makes: exactly one of above, below and
    plateau."""

    metric: str = Field(min_length=1)
    """A number of each step, by its name in metrics.jsonl, for instance train/success. Steps without it count for
    nothing."""
    above: float | None = Field(None, allow_inf_nan=False)
    """The stage ends when the metric is larger."""
    below: float | None = Field(None, allow_inf_nan=False)
    """The stage ends when the metric is smaller."""
    plateau: int | None = Field(None, ge=1)
    """The stage ends when the metric was no larger than its largest value before for this many steps in a row."""
    over: int = Field(1, ge=1)
    """The metric is the mean over this many steps; raise it where single steps scatter."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        given = [name for name in ("above", "below", "plateau") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                f"a stage ends by one of above, below and plateau; {' and '.join(given) or 'none'} is given"
            )
        return self

    def reason(self, values: Sequence[float]) -> str:
        """Why a stage whose metric had ``values``, one a step, has ended; "" if it goes on."""
        means = [math.fsum(values[end - self.over : end]) / self.over for end in range(self.over, len(values) + 1)]
        if not means:
            return ""
        now = f"{self.metric} is {means[-1]:.4g}" + (f" over {self.over} steps" if self.over > 1 else "")
        if self.above is not None:
            return f"{now}, above {self.above:g}" if means[-1] > self.above else ""
        if self.below is not None:
            return f"{now}, below {self.below:g}" if means[-1] < self.below else ""
        assert self.plateau is not None
        best = means.index(max(means))
        since = len(means) - 1 - best
        return f"{now}, for {since} steps no larger than {means[best]:.4g}" if since >= self.plateau else ""


class StageSection(Section):
    """A stage: a run of its own, whose settings are those of the file but for the keys in its table, for instance
    credit = "imitate" or train.steps = 20. A table is merged with that of the file, a part of another type replaces it.
    A warm start of the file is made in the first stage; in a stage's table it imitates with the model of that stage."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """Name of the stage. It is made in the folder RUN/stages/01-NAME, where 01 is its number among all stages."""
    reads: tuple[str, ...] = ()
    """Names of earlier stages whose episodes it learns from (as episodes.runs; episodes.type is "stored" unless it is
    set). With episodes.type = "mixed" it may name itself, for its episodes of earlier rounds."""
    rounds_read: Literal["last", "all"] = "last"
    """Of which rounds they are read: the last one that a stage was made in, or all so far."""
    begins_with: str = Field("before", min_length=1)
    """The model that it begins from. before: that of the stage before; first: the one that the first stage began from,
    after its warm start; the name of an earlier stage: that of this one."""
    until: StageEnd | None = None
    """When it ends before train.steps, for instance {metric = "train/success", above = 0.8, over = 5}."""
    settings: Mapping[str, object] = {}
    """All settings of the stage, as turngate writes them into config.toml. Write the keys into the table instead."""

    @property
    def episodes_type(self) -> str:
        """Where its episodes come from."""
        return str(_table(self.settings.get("episodes", STORED if self.reads else "played")).get("type", STORED))


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRun:
    """One stage of one round. ``number`` counts from 1 over all rounds, ``round_`` from 1; ``tree`` are its settings,
    to be parsed. ``place`` is its place in the config, from 0."""

    number: int
    round_: int
    place: int
    name: str
    tree: Mapping[str, object]
    until: StageEnd | None = None

    @property
    def folder(self) -> RunFolder:
        """Its folder."""
        return RunFolder(Path(str(self.tree["folder"])) / str(self.tree["name"]))


def with_settings(data: Mapping[str, object]) -> Mapping[str, object]:
    """``data`` with the settings of each stage: those of its table, put over the others.

    Raises ValueError for a key that no stage can have. Anything but a list of tables is left for validation to refuse.
    """
    stages = data.get("stages")
    if not isinstance(stages, list | tuple) or not all(isinstance(one, Mapping) for one in stages):
        return data
    base = {key: value for key, value in data.items() if key not in OF_THE_RUN}
    return {**data, "stages": [_with_settings(base, one, place) for place, one in enumerate(stages)]}


def _with_settings(base: Mapping[str, Any], stage: Mapping[str, Any], place: int) -> Mapping[str, Any]:
    own = {key: value for key, value in stage.items() if key not in StageSection.model_fields}
    for key in sorted(NOT_OF_A_STAGE & own.keys()):
        raise ValueError(
            f"stages[{place}].{key} cannot be set: it is one for the whole run"
            + _INSTEAD.get(key, "")
            + "; leave it out"
        )
    if "settings" in stage:
        return stage
    kept = {key: value for key, value in stage.items() if key in StageSection.model_fields}
    return {**kept, "settings": merge_tables(base, own)}


_INSTEAD = {"model": ", and begins_with says where a stage begins", "seed": ", from which those of stages derive"}


def merge_tables(base: Mapping[str, object], over: Mapping[str, object]) -> dict[str, object]:
    """``over`` put over ``base``: tables key by key, unless they are parts of different types; all else replaces."""
    found = dict(base)
    for key, value in over.items():
        old = found.get(key)
        below = _table(old) if isinstance(old, Mapping | str) else None
        if isinstance(value, Mapping) and below is not None and value.get("type") in (None, below.get("type")):
            value = merge_tables(below, value)
        found[key] = value
    return found


def unfold_stages(
    run: RunFolder, stages: Sequence[StageSection], *, rounds: int, seed: int, shared: Mapping[str, object]
) -> Iterator[StageRun]:
    """The stages of all rounds. ``shared``: ``model``, ``warm_start`` and ``sink`` of the run, as plain values.

    The first stage has the run's own seed, so it is the run that a config without stages would be; later ones have
    seeds of their own, so each round plays other tasks.
    """
    made: list[StageRun] = []
    for number in range(1, len(stages) * rounds + 1):
        round_, place = divmod(number - 1, len(stages))
        section = stages[place]
        tree = {
            **_with_models(section.settings, made),
            **_beginning(section, made, shared),
            "name": f"{number:02d}-{section.name}",
            "folder": str(run.stages_folder),
            "seed": seed if number == 1 else derive_seed(seed, "stage", number),
            "sink": shared["sink"],
        }
        if section.reads:
            tree["episodes"] = _episodes(section, made)
        stage = StageRun(
            number=number, round_=round_ + 1, place=place, name=section.name, tree=tree, until=section.until
        )
        made.append(stage)
        yield stage


def check_stages(stages: Sequence[StageSection], rounds: int) -> None:
    """Raise ValueError for stages that would have no effect, and for reading from a stage that does not exist."""
    if not stages and rounds > 1:
        raise ValueError(f"rounds = {rounds} has no effect without [[stages]]; leave it out")
    names = [one.name for one in stages]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"two stages are called '{twice}'; give one of them another name")
    if taken := next((name for name in names if name in BEGINNINGS), None):
        raise ValueError(f"a stage cannot be called '{taken}', which begins_with takes for another model; rename it")
    for place, one in enumerate(stages):
        key = f"stages[{place}] ('{one.name}')"
        for name in one.reads:
            if name not in names:
                raise ValueError(f"{key}.reads: {UnknownName('stage', name, names)}")
            itself = name == one.name and rounds > 1 and one.episodes_type == "mixed"
            if names.index(name) >= place and not itself:
                raise ValueError(
                    f"{key}.reads: stage '{name}' is not made before it; name an earlier one (or, with rounds and "
                    'episodes.type = "mixed", the stage itself)'
                )
        if one.reads and "runs" in _table(one.settings.get("episodes", {})):
            raise ValueError(f"{key}: reads and episodes.runs both say which episodes are read; keep one")
        if not one.reads and one.rounds_read != "last":
            raise ValueError(f"{key}.rounds_read has no effect without reads; leave it out")
        if one.rounds_read == "all" and rounds == 1:
            raise ValueError(f'{key}.rounds_read = "all" has no effect with rounds = 1; leave it out')
        if not place and one.begins_with != "before" and rounds == 1:
            raise ValueError(f"{key}.begins_with has no effect in the first stage; leave it out")
        _check_models(one, key, names[:place], names)
        is_read = any(one.name in other.reads for other in stages[place + 1 :])
        if _table(one.settings.get("learner", {})).get("type") == "frozen" and not is_read:
            raise ValueError(
                f"{key} has no effect: its learner is frozen, and no later stage reads its episodes; name it in reads "
                "of one, or let it learn"
            )
        train = _table(one.settings.get("train", {}))
        if one.until is not None and train.get("ahead"):
            raise ValueError(
                f"{key}.until does not go with train.ahead = {train['ahead']}: the next step is played before this one "
                "is measured; leave one of them out"
            )
        if train.get("steps") == 0 and "warm_start" not in one.settings and place:
            raise ValueError(f"{key} changes nothing: it has neither steps nor a warm_start; leave it out")


def _beginning(section: StageSection, made: Sequence[StageRun], shared: Mapping[str, object]) -> dict[str, object]:
    """The model that a stage begins from, and the warm start that makes the first one of all."""
    if not made:
        own = {key: shared[key] for key in ("model", "warm_start") if key in shared}
        return {**own, **{key: section.settings[key] for key in ("warm_start",) if key in section.settings}}
    if section.begins_with == "before":
        return {"model": str(made[-1].folder.model)}
    if section.begins_with != "first":
        return {"model": _model_of(section.begins_with, made)}
    first = made[0]
    return {"model": str(first.folder.warm_start) if "warm_start" in first.tree else first.tree["model"]}


def _model_of(name: str, made: Sequence[StageRun]) -> str:
    """The folder of the model of the stage of that name which was made last."""
    return str(next(one for one in reversed(made) if one.name == name).folder.model)


def _with_models(value: Any, made: Sequence[StageRun]) -> Any:
    """Settings in which every ``stage:NAME`` is the folder of that stage's model."""
    if isinstance(value, Mapping):
        return {key: _with_models(below, made) for key, below in value.items()}
    if isinstance(value, list | tuple):
        return [_with_models(below, made) for below in value]
    return _model_of(value.removeprefix(OF_STAGE), made) if _means_a_stage(value) else value


def _means_a_stage(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value.startswith(OF_STAGE)


def _texts(value: object) -> Iterator[str]:
    """Every text in a tree of settings."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for below in value:
            yield from _texts(below)
    elif isinstance(value, str):
        yield value


def _check_models(one: StageSection, key: str, earlier: Sequence[str], names: Sequence[str]) -> None:
    """Raise ValueError for a stage that names the model of one which is not made before it."""
    named = {text: text.removeprefix(OF_STAGE) for text in _texts(one.settings) if _means_a_stage(text)}
    if one.begins_with not in BEGINNINGS:
        named[f"begins_with = '{one.begins_with}'"] = one.begins_with
    for said, name in named.items():
        if name not in names:
            raise ValueError(f"{key}: {said}: {UnknownName('stage', name, names)}")
        if name not in earlier:
            raise ValueError(f"{key}: {said}: stage '{name}' is not made before it; name an earlier one")


def _episodes(section: StageSection, made: Sequence[StageRun]) -> dict[str, object]:
    """The table ``episodes`` with the folders that the stage reads."""
    runs = []
    for name in section.reads:
        known = [str(one.folder.path) for one in made if one.name == name]
        runs += known if section.rounds_read == "all" else known[-1:]
    table = {"type": STORED, **_table(section.settings.get("episodes", STORED))}
    return {**table, "runs": runs} if runs else table


def _table(value: object) -> dict[str, Any]:
    """A part as a table: its name alone is its type."""
    if isinstance(value, str):
        return {"type": value}
    return dict(value) if isinstance(value, Mapping) else {}
