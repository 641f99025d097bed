"""The benchmarks of the learner's memory: the loss does not grow with the vocabulary, and a plain one would."""

from benchmarks import lora_memory
from benchmarks.loss_memory import elsewhere, measure


def test_the_loss_takes_no_more_memory_with_a_larger_vocabulary():
    small = elsewhere(40_000, 500, 16, at_once=False)
    large, at_once = (measure(120_000, 500, 16, at_once=way) for way in (False, True))
    assert large < 1.25 * small + 20
    assert at_once > 2.5 * large


def test_a_small_model_takes_the_step_whose_memory_is_measured(capsys):
    lora_memory.main(["--small", "--siblings", "2", "--turns", "1"])
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("519,040 weights, of which 51,200 are trained")
    assert "GiB resident" in told[1]
