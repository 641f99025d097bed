"""What is paid: no cheat, and every honest repair.

1. No cheat of the corpus has an outcome, or a share of the tests, beyond what the bug itself has.
2. None voids its episode: there is all the evidence, or a failure with a reason (AgentFault).
3. Each comes to its end, and no process and no file of it is left.
4. The corpus bites: most of its cheats in the first four classes pass a grader that only runs the tests.
5. Honest repairs are paid in full, nothing being said against them.

Each cheat is tried on one generated problem (plain runner), and on one with pytest, another from cheat to cheat;
``python -m benchmarks.what_is_paid`` tries each on every kind of problem.
"""

from itertools import islice

import pytest

from tests.envs.code.cheats.cheat import CLASSES
from tests.envs.code.cheats.corpus import CHEATS, kinds_of
from tests.envs.code.cheats.honest import generated
from tests.envs.code.cheats.kinds import KINDS, problems
from tests.envs.code.cheats.measure import RUNS, SHORT_S, bare, paid, private_bench, try_cheat
from turngate.envs.code.engine.workspace import Changes
from turngate.envs.code.grading.suspects import suspects


@pytest.fixture(scope="module")
def place():
    with private_bench() as (bench, private):
        yield bench, private


@pytest.fixture(scope="module")
def found(place, tmp_path_factory):
    return problems(tmp_path_factory.mktemp("kinds"), place[0])


def test_the_corpus_is_what_it_says():
    assert len({cheat.name for cheat in CHEATS}) == len(CHEATS) >= 60
    assert {cheat.kind for cheat in CHEATS} == set(CLASSES)
    assert all(cheat.idea and (cheat.code or cheat.instead) for cheat in CHEATS)
    assert {kind for cheat in CHEATS for kind in kinds_of(cheat)} == set(KINDS)


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.name)
def test_no_cheat_is_paid_and_none_voids_its_episode(place, found, cheat):
    bench, private = place
    for kind in kinds_of(cheat):
        result = try_cheat(bench, found[kind], cheat, private)
        assert not result.void, (kind, result.void)
        assert not result.resolved, (kind, result.facts)
        assert result.fixed == 0.0, (kind, result.facts)
        assert not result.left, (kind, result.left)
        assert result.time_s < RUNS * SHORT_S, kind


BITES = {"patching": 7, "forging": 6, "looking up": 8, "telling runs apart": 8}


@pytest.mark.parametrize("kind", ["generated number", "quixbugs data"])
@pytest.mark.parametrize("group", BITES)
def test_the_corpus_bites(place, found, group, kind):
    """So that it is the grading that refuses them, and not a mistake in them; not each has something to bite here."""
    tried = (cheat.name for cheat in CHEATS if cheat.kind == group and bare(place[0], found[kind], cheat))
    bitten = list(islice(tried, BITES[group]))  # the rest need not be tried
    assert len(bitten) == BITES[group], bitten


def test_no_list_of_names_would_find_them(found):
    """What a name says is no reason for a verdict here: the names that are looked for do not occur."""
    problem = found["generated number"]
    (path,) = problem.solved
    original, solved = problem.files[path], problem.solved[path]
    named = {cheat.name: suspects(original, solved, cheat.changes(problem).texts[path]) for cheat in CHEATS}
    assert [name for name, names in named.items() if names] == ["is nested too deeply to be parsed"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_bug_earns_nothing_and_its_repair_everything(place, found, kind):
    bench, private = place
    result = paid(bench, found[kind], Changes(texts=found[kind].solved), private)
    assert (result.resolved, result.fixed, result.void, result.left) == (True, 1.0, "", ())
    assert not result.facts.keys() & {"tampering", "control_passed", "tests_ended_early"}
    result = paid(bench, found[kind], Changes(texts={}), private)
    assert (result.resolved, result.fixed, result.void, result.left) == (False, 0.0, "", ())


@pytest.mark.parametrize("problem", list(generated(every_bug=False)), ids=lambda problem: problem.id)
def test_honest_repairs_of_every_family_are_paid(place, problem):
    bench, private = place
    result = paid(bench, problem, Changes(texts=problem.solved), private)
    assert (result.resolved, result.fixed, result.void) == (True, 1.0, "")
    assert not result.facts.keys() & {"tampering", "control_passed", "tests_ended_early"}
