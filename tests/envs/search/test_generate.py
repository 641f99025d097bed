"""Generated worlds and questions: fair, the same everywhere, and apart between splits."""

import re

import pytest

import turngate
from turngate.envs.search.engine.index_cache import corpus_of
from turngate.envs.search.generated.generate import SearchGenerator
from turngate.envs.search.generated.graphs import Graph, Node, Route, fair
from turngate.envs.search.generated.made_up import world
from turngate.envs.search.sources import GeneratedSearch
from turngate.errors import ConfigError, UnknownName
from turngate.rewards.outcome.answers import normalize


def tasks(n=60, split="train", **settings):
    source = GeneratedSearch(**settings).open()
    return [source.task(split, index) for index in range(n)]


def test_every_question_has_one_answer_which_only_its_last_document_gives():
    """Read from the text alone: the answer stands in the last document on the way and in none before it."""
    for task in tasks(min_hops=2):
        corpus, private = corpus_of(task.private["corpus"]), task.private
        texts = [" ".join(passage.text for passage in corpus.documents[name]) for name in private["path"]]
        (answer,) = private["gold"]
        assert answer in texts[-1]
        assert not any(answer in text for text in texts[:-1])
        assert answer not in task.prompt
        for before, following in zip(texts, private["titles"][1:], strict=False):
            assert following in before


def test_a_question_without_an_answer_is_one_that_the_documents_leave_out():
    for task in tasks(20, unanswerable=1.0):
        private = task.private
        graph = world("train", private["corpus"]["world"], private["corpus"]["size"]).graph
        start, *links = private["path"][0], *private["links"]
        assert private["gold"] == []
        assert not graph.ends(graph.nodes[start].name, links)
        assert graph.ends(graph.nodes[start].name, links[:-1]) == {private["path"][-1]}


def test_the_splits_share_no_name():
    def words(split):
        return {
            word
            for number in range(6)
            for node in world(split, number, 30).graph.nodes.values()
            for word in re.findall(r"[A-Z]\w+", node.name)
            if word != "The"
        }

    assert not words("train") & words("heldout")
    assert not {task.prompt for task in tasks()} & {task.prompt for task in tasks(split="heldout")}


def test_names_of_words_share_words_and_no_name():
    def names(split):
        worlds = [world(split, number, 30, "words") for number in range(20)]
        return {node.name for made in worlds for node in made.graph.nodes.values() if node.document}

    train, heldout = names("train"), names("heldout")
    assert not train & heldout
    assert {word for name in heldout for word in name.split()} <= {word for name in train for word in name.split()}
    assert all(re.fullmatch(r"[A-Z][a-z]+ [A-Z][a-z]+", name) for name in train)
    assert all(re.fullmatch(r"\d\d", document.id) for document in world("train", 0, 60, "words").documents)


def test_the_oracle_answers_questions_about_names_of_words():
    tasks = {"type": "generated_search", "naming": "words", "size": 12, "max_hops": 2}
    with turngate.make("turngate/Search-v1", tasks=tasks, k=1) as env:
        for number in range(20):
            task = env.tasks.task("heldout", number)
            env.reset(options={"task": task})
            for line in env.oracle(task):
                info = env.step(line)[4]
            assert info["score"].outcome == 1.0


def test_only_the_named_links_are_told_and_asked_for():
    links = ("employer", "teacher", "mayor", "river")
    source = GeneratedSearch(naming="words", size=12, max_hops=1, links=links)
    asked = {link for number in range(60) for link in source.open().task("train", number).private["links"]}
    assert asked == set(links)
    told = {link for number in range(10) for known in world("train", number, 12, "words", links).graph.links.values()
            for link in known}  # fmt: skip
    assert told == set(links)
    texts = " ".join(document.text for document in world("train", 0, 12, "words", links).documents)
    assert "born" not in texts
    with turngate.make("turngate/Search-v1", tasks=source.model_dump(mode="json"), k=1) as env:
        for number in range(20):
            task = env.tasks.task("heldout", number)
            env.reset(options={"task": task})
            for line in env.oracle(task):
                info = env.step(line)[4]
            assert info["score"].outcome == 1.0


def test_links_to_words_are_told_only_where_they_are_named():
    named = {"naming": "words", "size": 12, "max_hops": 1, "links": ("trade", "father", "goods", "lack")}
    source = GeneratedSearch(**named).open()
    train, heldout = ([source.task(split, number).private for number in range(250)] for split in source.splits)
    assert {link for private in train for link in private["links"]} == set(named["links"])
    answers = [{gold for private in found for gold in private["gold"]} for found in (train, heldout)]
    assert answers[0] == answers[1]
    assert len(answers[0]) == 28
    graphs = [world("train", number, 30).graph for number in range(10)]
    told = {link for graph in graphs for known in graph.links.values() for link in known}
    assert len(told) == 12
    assert not told & set(named["links"])


def test_links_that_no_question_can_follow_are_told():
    with pytest.raises(ConfigError, match="raise size, or name more kinds of links"):
        GeneratedSearch(size=12, min_hops=3, max_hops=3, links=("river",)).open().task("train", 0)


def test_names_of_a_world_are_unique_and_ids_tell_nothing():
    for number in range(4):
        made = world("train", number, 40)
        names = [normalize(node.name) for node in made.graph.nodes.values() if node.document]
        assert len(set(names)) == len(names) == len(made.documents)
        assert all(re.fullmatch(r"[a-z0-9]{3}", document.id) for document in made.documents)


def test_the_same_number_gives_the_same_task():
    assert tasks(5) == tasks(5)
    source = GeneratedSearch().open()
    task = source.task("heldout", 3)
    assert source.find(task.id) == task
    assert task == turngate.make("turngate/Search-v1").tasks.task("heldout", 3)
    for bad in ("search/none/0", "sql/train/0", "search/train/x"):
        with pytest.raises(UnknownName):
            source.find(bad)
    with pytest.raises(IndexError, match="numbers start at 0"):
        source.task("train", -1)


def test_settings_that_contradict_each_other():
    with pytest.raises(ConfigError, match="min_hops is 3 and max_hops 2"):
        GeneratedSearch(min_hops=3, max_hops=2).open()
    with pytest.raises(ConfigError, match=r'size is 61; with naming = "words" it can be at most 60'):
        GeneratedSearch(size=61, naming="words").open()
    assert isinstance(GeneratedSearch().open(), SearchGenerator)


def graph_of(*links, names=None):
    graph = Graph(phrases={"of": "the x of {}"}, links_of={"k": ["of"]})
    for name in sorted({end for link in links for end in link}):
        graph.add(Node(id=name, name=(names or {}).get(name, name), kind="k"))
    for source, target in links:
        graph.link(source, "of", target)
    return graph


def route(graph, *way, answer):
    nodes = [graph.nodes[name] for name in way]
    end = graph.nodes[answer] if answer else None
    return Route(start=nodes[0], links=("of",) * len(nodes), documents=tuple(nodes), answer=end)


@pytest.mark.parametrize(
    ("links", "names", "way", "answer", "expected"),
    [
        ([("m", "n"), ("n", "o")], None, "mn", "o", True),
        ([("m", "n"), ("m", "o")], None, "m", "n", False),  # two answers
        ([("m", "n"), ("o", "p")], {"o": "m"}, "m", "n", False),  # two starts of one name
        ([("m", "n"), ("n", "m")], None, "mn", "m", False),  # the question names the answer
        ([("m", "n"), ("n", "o")], {"o": "The N."}, "mn", "o", False),  # the way names the answer
        ([("m", "n")], None, "mn", None, True),  # what n leads to is left out
        ([("m", "n"), ("n", "o")], None, "mn", None, False),  # it is not
    ],
)
def test_which_questions_are_fair(links, names, way, answer, expected):
    graph = graph_of(*links, names=names)
    assert fair(graph, route(graph, *way, answer=answer)) is expected


def test_the_wording_goes_from_the_inside_out():
    graph = graph_of(("m", "n"), ("n", "o"))
    assert route(graph, "m", "n", answer="o").wording(graph) == "Name the x of the x of m."
