"""What a user's own parts hand over: numbers of any library are taken, all else is one line that names the part, its
file and line, and what it must return. Nothing that such a part does is called a bug of turngate."""

import pytest
import tomli_w

from tests.helpers.command_line import turngate_at
from turngate.errors import PartError

pytestmark = pytest.mark.timeout(400)

HOME = "tests.cli.odd_parts"
LOCK = {"id": "turngate/Lock-v1"}
OPENED = {"type": "from_evidence", "name": "opened", "evidence": "opened", "kind": "outcome", "levels": [0, 1]}
SHORT = {"turn_tokens": 8, "context": 256, "concurrency": 8}


def config(**sections):
    return {
        "env": LOCK,
        "model": {"layers": 1, "width": 32, "heads": 2, "vocabulary": 300},
        "policy": SHORT,
        "eval": {"tasks": 1},
        "train": {"steps": 1, "tasks_per_step": 2, "group_size": 3, "filters": [], **sections.pop("train", {})},
        **sections,
    }


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model that plays the lock after a fashion."""
    folder = tmp_path_factory.mktemp("model")
    started = config(warm_start={"episodes": 16, "epochs": 1, "episodes_per_batch": 8, "lr": 5e-3})
    (folder / "start.toml").write_text(tomli_w.dumps({"name": "start", **started, "train": {"steps": 0}}))
    assert turngate_at(folder, "train", "start.toml") == 0
    return folder / "runs/start/model"


@pytest.fixture
def trained(model, tmp_path, capsys):
    """The last line of what ``turngate train`` prints with parts of a user, whose exit code is asserted."""

    def train(code, **sections):
        table = config(**sections) | {"name": "odd", "model": str(model)}
        (tmp_path / "odd.toml").write_text(tomli_w.dumps(table))
        capsys.readouterr()
        found = turngate_at(tmp_path, "train", "odd.toml")
        out, err = capsys.readouterr()
        assert found == code, out + err
        return err.strip().splitlines()[-1] if code else out

    return train


def odd(kind, **settings):
    return {"type": f"{HOME}:{kind}", **settings}


def sections(kind, settings):
    """Where a part of this kind stands in a config."""
    part = odd(kind, **settings)
    return {
        "OddReward": lambda: {"env": {**LOCK, "rubric": {"rewards": [OPENED, part | {"name": "own", "weight": 0.1}]}}},
        "OddGuide": lambda: {"guide": part},
        "OddCurriculum": lambda: {"curriculum": part},
        "OddPool": lambda: {"curriculum": part | {"pool": 8}},
        "OddBranching": lambda: {"branching": part},
        "OddAuxiliary": lambda: {"auxiliary": [part]},
        "OddPolicy": lambda: {"policy": part | SHORT},
        "OddSurvey": lambda: {"train": {"filters": [part]}},
        "odd_filter": lambda: {"train": {"filters": [part]}},
        "OddObjective": lambda: {"loss": {"objective": part}},
        "odd_objective": lambda: {"loss": {"objective": part}},
        "OddCorrection": lambda: {"loss": {"correction": [part]}},
        "OddPenalty": lambda: {"loss": {"penalties": [part]}},
        "OddShaping": lambda: {"loss": {"guided": part}, "guide": HINTED},
        "OddLearner": lambda: {"learner": part},
        "OddEpisodes": lambda: {"episodes": part},
        "OddReplay": lambda: {"episodes": {"type": "mixed", "replay": part}},
    }.get(kind, lambda: {"credit": part})()


@pytest.mark.parametrize(
    "kinds",
    [
        {"OddReward": "numpy", "as_list": "", "odd_filter": "list", "OddGuide": "numpy", "OddCurriculum": "numpy"},
        {"OddReward": "yes", "odd_filter": "numpy", "OddBranching": "numpy", "OddPool": "list"},
        {"OddAuxiliary": "numpy", "OddPolicy": "lists", "OddEpisodes": "numpy", "OddLearner": "numpy"},
        {"OddReplay": "numpy", "OddPenalty": "numpy"},
    ],
)
def test_numbers_of_numpy_and_plain_lists_are_taken(trained, kinds):
    given = [sections(kind, {"gives": gives} if gives else {}) for kind, gives in kinds.items()]
    trained(0, **{key: value for one in given for key, value in one.items()})


EXCEPTIONS = ("KeyError", "SystemExit", "KeyboardInterrupt", "CancelledError", "GeneratorExit", "StopIteration")
PLAN = "it must return a Plan"
NUMBERS = "it must return a dictionary of numbers by name"
TASKS = "it must return different tasks of the run, at least one"
BOOL = "it must return a bool, or bool[3]"
FORKS = "it must return a list of Fork"
ROWS = "it must return AuxiliaryRows"
TURN = "it must return a Completion"
SETTABLE = ("OddGuide", "OddCurriculum", "OddAuxiliary", "OddPolicy", "OddObjective", "OddPenalty", "OddLearner")
SETTABLE += ("OddEpisodes",)
HINTED = {"type": "guide", "strip": True}
GAIN = "it must return a Gain whose value and limited are tensors"
FACTOR = "it must return a tensor with one number per token, [S], none below 0"
TERM = "it must return a pair: a tensor that is one number, and"
EACH = "it must return a tensor with one number per token"
SURVEYED = "it must return a pair: what is called on the passes, and"
TOKENS = "it must return one number for each of the "
WAVES = "it must return Waves"
STEP = "it must return a StepPlan"
WRONG = [
    ("OddGuide", "plan", ("none", "nan", "text", "empty", "unspeakable"), PLAN),
    ("OddGuide", "plan", ("no episode", "no entries", "a text", "a level", "no text", "a turn", "into"), PLAN),
    ("OddGuide", "again", ("nan", "text", "a row"), PLAN),
    ("OddGuide", "settle", ("none",), "it must return a ScoredGroup"),
    ("OddGuide", "metrics", ("none", "a name", "a word"), NUMBERS),
    ("OddGuide", "state", ("an object",), "it must return JSON"),
    ("OddGuide", "open", ("none",), "it must return a Guide"),
    ("OddCurriculum", "pick", ("none", "nan", "text", "empty", "unknown", "elsewhere", "twice", "ids"), TASKS),
    ("OddCurriculum", "metrics", ("none", "a word"), NUMBERS),
    ("OddCurriculum", "open", ("none",), "it must return a Curriculum"),
    ("OddPool", "choose", ("none", "nan", "text", "all", "outside", "floats"), "of the places that it is given"),
    ("odd_filter", "", ("none", "nan", "text", "long", "floats"), BOOL),
    ("OddSurvey", "survey", ("none",), "it must return a filter"),
    ("OddBranching", "choose", ("none", "nan", "text", "numbers", "a leaf", "a turn", "half a turn"), FORKS),
    ("OddAuxiliary", "rows", ("nan", "text", "rows", "no rows", "a length", "the first", "words", "a token"), ROWS),
    ("OddAuxiliary", "rows", ("a weight", "a teacher", "one teacher"), ROWS),
    ("OddAuxiliary", "metrics", ("none",), NUMBERS),
    ("OddAuxiliary", "open", ("none",), "it must return an AuxiliarySource"),
    ("OddPolicy", "complete", ("none", "text", "logprobs", "a token", "half a token", "no text", "an end"), TURN),
    ("OddPolicy", "open", ("none",), "it must return a Policy"),
    ("OddReward", "verdicts", ("bare",), "it must return a list of pairs (turn"),
    *[
        (kind, where, EXCEPTIONS, must)
        for kind, where, must in (("OddGuide", "plan", PLAN), ("OddAuxiliary", "rows", ROWS))
    ],
    ("OddGuide", "observe", ("SystemExit",), ""),
    ("OddCurriculum", "pick", ("KeyError", "SystemExit"), TASKS),
    ("OddCurriculum", "observe", ("KeyboardInterrupt",), ""),
    ("OddCurriculum", "save", ("GeneratorExit",), ""),
    ("odd_filter", "", ("KeyError", "SystemExit"), BOOL),
    ("OddBranching", "choose", ("KeyError", "CancelledError"), FORKS),
    ("OddPolicy", "complete", ("KeyError", "SystemExit", "CancelledError", "a length"), TURN),
    ("OddPolicy", "publish", ("SystemExit",), ""),
    ("OddAuxiliary", "conclude", ("SystemExit",), ""),
    ("OddObjective", "__call__", ("none", "a mean", "numpy", "no bound", "KeyError", "SystemExit"), GAIN),
    ("OddObjective", "survey", ("none", "no act", "a memory", "KeyError"), SURVEYED),
    ("odd_objective", "", ("none", "KeyError"), GAIN),
    ("OddCorrection", "__call__", ("none", "one", "below", "numpy", "KeyError"), FACTOR),
    ("OddPenalty", "__call__", ("none", "alone", "each", "a word", "KeyError", "KeyboardInterrupt"), TERM),
    ("OddPenalty", "survey", ("none",), SURVEYED),
    ("OddShaping", "__call__", ("none", "a sum", "KeyError"), EACH),
    ("OddLearner", "open", ("none", "KeyError"), "it must return a Learner"),
    ("OddLearner", "optim_step", ("none", "a word", "SystemExit"), NUMBERS),
    ("OddLearner", "forward_backward", ("none", "KeyError"), NUMBERS),
    ("OddLearner", "logprobs", ("none", "one less", "CancelledError"), TOKENS),
    ("OddLearner", "weights", ("none",), "it must return the parameters by name"),
    ("OddLearner", "save", ("KeyError",), ""),
    ("OddLearner", "started", ("KeyError", "SystemExit"), ""),
    ("OddLearner", "write_adapter", ("SystemExit",), ""),
    ("OddEpisodes", "open", ("none", "KeyError"), "it must return an EpisodeSource"),
    ("OddEpisodes", "waves", ("none", "trajectories", "no groups", "a word", "KeyError", "CancelledError"), WAVES),
    ("OddReplay", "plan", ("none", "too many", "nothing", "a task", "no rows", "a row", "KeyError"), STEP),
]


@pytest.mark.parametrize(
    ("kind", "where", "gives", "must"),
    [(kind, where, one, must) for kind, where, several, must in WRONG for one in several],
)
def test_what_cannot_be_used_is_one_line_with_the_part_its_place_and_what_it_must_return(
    trained, kind, where, gives, must
):
    settable = kind in SETTABLE
    said = trained(1, **sections(kind, {"gives": gives} | ({"where": where} if settable else {})))
    assert said.startswith("PartError: ")
    assert f"'{HOME}:" in said
    assert "(odd_parts.py, line " in said
    assert must in said
    assert f": {where}() r" in said if where else " returned " in said or " raised " in said
    assert gives not in EXCEPTIONS or f"raised {gives}" in said
    assert "bug of turngate" not in said


@pytest.mark.parametrize(
    ("kind", "gives", "code", "said"),
    [
        ("OddReward", "nan", 1, "PartError: component 'own' (tests.cli.odd_parts:OddReward) of task 'lock/"),
        ("OddReward", "text", 1, "earned '0.5'; it must be a finite number in [0, 1]"),
        ("one_too_many", "", 2, "returned array([0., "),
        ("needing", "none", 2, "error: loss: objective 'tests.cli.odd_parts:OddObjective' (odd_parts.py, line "),
        ("needing", "KeyError", 2, ": needs() raised KeyError: 'who' in line "),
        ("none", "", 2, "returned None; it must return one number for each of the"),
    ],
)
def test_rewards_credit_rules_and_what_a_config_asks_are_named_too(trained, kind, gives, code, said):
    where = {"where": "needs"} if kind == "needing" else {}
    kind = "OddObjective" if where else kind
    told = trained(code, **sections(kind, ({"gives": gives} if gives else {}) | where))
    assert said in told
    assert f"{HOME}:{kind}" in told
    assert "bug of turngate" not in told


def test_a_part_that_ships_is_not_blamed_as_a_users(monkeypatch):
    from turngate.part_calls import call_part, ignored
    from turngate.trainer.guidance.base import NoGuide

    monkeypatch.setattr(NoGuide, "observe", lambda self, groups: {}["who"])
    with pytest.raises(KeyError):
        call_part("guide", NoGuide().observe, (), take=ignored, must="")
    with pytest.raises(PartError, match=r"guide 'turngate\.trainer\.guidance\.base:NoGuide' .* returned {}"):
        call_part("guide", NoGuide().metrics, take=lambda found: {}["who"] if found else 1 / 0, must="x")


def test_a_learner_that_is_left_hides_nothing_that_went_wrong_in_the_run(trained):
    said = trained(1, learner=odd("OddLearner", where="hides", gives="none"))
    assert ": open() returned None" in said
