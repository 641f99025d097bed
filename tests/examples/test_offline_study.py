"""The offline study: what its demonstrations teach, what its runs share, and the whole command on two updates."""

import csv
import json
from collections import Counter

import pytest

from examples.farming.report import marks
from examples.offline_study import show
from examples.offline_study.__main__ import main, options
from examples.offline_study.report import TITLES, Run, difference
from examples.offline_study.settings import ENVIRONMENTS, OFFLINE, ON_TOP, ONLINE, START, STORE, Wanted, config_of
from examples.offline_study.training import best_arm
from tests.helpers.episodes_csv import rates_of_episodes
from tests.helpers.smaller import smaller
from turngate.envs.lock import COLOURS, LockTasks, colours_of, key_of
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.trainer.evaluation.evaluate import Evaluation
from turngate.trainer.evaluation.validation_steps import TriedStep, TriedSteps, write_steps

TINY = smaller(
    ENVIRONMENTS["lock"].settings,
    {
        **{"env.kwargs.max_turns": 3, "env.tasks.dials": 2, "model.layers": 1},
        **{"train.tasks_per_step": 4, "eval.tasks": 4},
    },
)


def test_the_demonstrator_confuses_one_colour_of_each_seed(tmp_path):
    found = set()
    for seed in range(6):
        show.show_locks(tmp_path / "shown.jsonl", seed, LockTasks(6))
        seen = {colour: Counter() for colour in COLOURS}
        for row in map(json.loads, (tmp_path / "shown.jsonl").read_text().splitlines()):
            for colour, action in zip(colours_of(LockTasks(6).find(row["task"])), row["actions"], strict=True):
                seen[colour][action.removeprefix("press ")] += 1
        share = {colour: keys[key_of(colour)] / keys.total() for colour, keys in seen.items()}
        (confused,) = (colour for colour, keys in seen.items() if keys.most_common(1)[0][0] != key_of(colour))
        assert share.pop(confused) == pytest.approx(show.CONFUSED[0], abs=0.08)  # four standard errors of 600
        assert list(share.values()) == pytest.approx([show.KNOWN[0]] * 3, abs=0.06)
        found.add(confused)
    assert len(found) > 1


@pytest.mark.parametrize("place", ENVIRONMENTS)
def test_arms_differ_in_how_they_learn_only(place, tmp_path):
    def of(arm):
        found = config_of(Wanted(place=place, arm=arm, seed=3, out=tmp_path, best="dpo"))
        return found.model_dump(exclude={"name", "credit", "loss", "auxiliary", "episodes"})

    online = of(ONLINE)
    for arm in OFFLINE:
        offline = of(arm)
        assert offline.pop("train") | {"filters": None} == online["train"] | {"filters": None}
        assert offline == {name: value for name, value in online.items() if name != "train"}
    store = of(STORE)
    assert store["train"] == {**online["train"], "validation": None}  # as many episodes of as many tasks
    assert store["seed"] != online["seed"]  # played otherwise
    on_top = of(ON_TOP)
    assert on_top["train"]["steps"] == round(0.2 * online["train"]["steps"])
    assert (on_top["warm_start"], on_top["model"]) == (None, str(tmp_path / place / "dpo-3" / "model"))


def test_the_best_arm_is_that_of_the_last_validation(tmp_path):
    folders = {}
    for arm, rates in {"bc": (0.1, 0.9, 0.3), "awr": (0.1, 0.2, 0.5), "dpo": (0.1, 0.2, 0.5)}.items():
        folders[arm] = RunFolder(tmp_path / arm)
        folders[arm].path.mkdir()
        tried = tuple(TriedStep(number=n, sampled=rate, greedy=rate, unusable=0) for n, rate in enumerate(rates))
        of_run = {"split": "heldout", "temperature": 1.0, "tasks": 9, "left_out": 0, "by": "mean", "keep": "last"}
        write_steps(folders[arm], TriedSteps(steps=2, tried=tried, **of_run))
    assert best_arm(folders) == "awr"


def test_differences_pair_the_tasks_of_each_seed():
    def run(arm, seed, *success):
        tasks = tuple(str(number) for number in range(len(success)))
        fixed = {"split": "heldout", "temperature": 1.0, "unusable": 0, "tasks": 2, "questions": 2}
        found = Evaluation(success_B=success, task_B=tasks, question_B=tasks, **fixed)
        return Run(arm, seed, {"sampled": found}, None, ())

    runs = [run(START, 0, True, False), run("bc", 0, True, True), run(START, 1, False, False), run("bc", 1, True, True)]
    assert difference(runs, START, "bc", "sampled").value == 0.75
    alike = [run(START, seed, True, False) for seed in (0, 1)] + [run("bc", seed, True, False) for seed in (0, 1)]
    assert difference(alike, START, "bc", "sampled") == (0, 0, 0)  # paired: no task changed
    alone = [*runs, run("bc", 2, False, False)]  # a seed that one side alone has compares nothing
    assert difference(alone, START, "bc", "sampled").value == 0.75


@pytest.mark.parametrize(
    "wrong", [["--seeds", "0"], ["--updates", "1"], ["--arms", "guess"], ["--envs", "chess"], ["--settings", "a"]]
)
def test_options_that_make_no_sense_are_refused(wrong, capsys):
    with pytest.raises(SystemExit):
        options(wrong)
    assert wrong[0] in capsys.readouterr().err


def test_the_command_records_learns_writes_and_does_not_repeat_itself(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(show, "LOCKS", 200)
    page, out, settings = tmp_path / "offline.md", tmp_path / "runs", tmp_path / "tiny.toml"
    begin, end = marks("lock")
    page.write_text(f"Title\n\n{begin}\nold\n{end}\n\nAfterwards\n")
    settings.write_text(TINY)
    command = ["--envs", "lock", "--seeds", "1", "--updates", "2", "--jobs", "1", "--settings", str(settings)]
    command += ["--out", str(out), "--results", str(tmp_path)]
    main(command)
    with (tmp_path / "data" / "offline_study.csv").open() as file:
        rows = list(csv.DictReader(file))
    held_out = {(row["arm"], row["sampling"]): row for row in rows if row["split"] == "heldout"}
    assert set(held_out) == {(arm, how) for arm in TITLES for how in ("sampled", "greedy")}
    updates = {arm: int(row["update"]) for (arm, _), row in held_out.items()}
    assert updates == {START: 0, **dict.fromkeys((*OFFLINE, ONLINE), 2), ON_TOP: 1}
    fresh = Counter(row["arm"] for row in rows if row["split"] == "train")
    assert fresh == {STORE: 2, ONLINE: 2, ON_TOP: 1}  # no other arm played
    stored, learned = (Store(out / "lock" / f"{arm}-0") for arm in (STORE, "bc"))
    assert (stored.steps("train"), learned.steps("train")) == ([1, 2], [])
    assert rates_of_episodes(tmp_path / "data" / "offline_study_episodes_lock.csv") == {
        (arm, "0", "heldout", how, "before" if arm == START else "after"): row["success"]
        for (arm, how), row in held_out.items()
    }
    assert (tmp_path / "figures" / "offline_study.png").read_bytes().startswith(b"\x89PNG")
    text = page.read_text()
    assert text.startswith(f"Title\n\n{begin}\n\n`python -m examples.offline_study --envs lock --seeds 1")
    assert f"\n| {TITLES['dpo']} | 2 | " in text
    models = [RunFolder(out / "lock" / f"{arm}-0").model for arm in (*TITLES, STORE)]
    written = [model.stat().st_mtime_ns for model in models]
    main(command)
    assert [model.stat().st_mtime_ns for model in models] == written
    assert capsys.readouterr().out.count("\nlock online-0: ") == 2
