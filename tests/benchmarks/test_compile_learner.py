"""The benchmark of torch.compile in the learner runs to its end; no code for a processor is made here."""

from benchmarks import compile_learner
from turngate.trainer.torch import tree_attention


def test_it_runs_to_the_end(capsys):
    before = tree_attention.tree_attention
    few = ["--batches", "1", "--tasks", "1", "--repeats", "1"]
    compile_learner.main([*few, "--parts", "head", "--backend", "eager"])  # layers take longer to trace
    heading, *_, line = capsys.readouterr().out.splitlines()
    assert heading.startswith("1 batches of ")
    assert line.startswith("| head | ")
    assert line.endswith(("gradients |", "never |"))
    assert tree_attention.tree_attention is before
