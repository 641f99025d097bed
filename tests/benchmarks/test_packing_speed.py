"""The benchmark of packing runs to its end, and knows the ways that there are on this device."""

import json

import numpy as np

from benchmarks import packing
from turngate.trainer.torch.tree_attention import kernels_on


def test_it_runs_to_the_end_and_writes_what_it_prints(tmp_path, capsys):
    out = tmp_path / "found.json"
    packing.main(["--small", "--width", "32", "--layers", "1", "--repeats", "1", "--out", str(out)])
    found = json.loads(out.read_text())
    (shape,) = found["shapes"].values()
    ways = ["rows", *kernels_on(packing.DEVICE), "auto"]
    assert list(shape["seconds"]) == ways
    assert all(taken > 0 for taken in shape["seconds"].values())
    assert shape["bound"] == shape["tokens"] / shape["nodes"] > 1.5
    assert found["command"] == "python -m benchmarks.packing --width 32 --layers 1 --repeats 1 --small"
    assert found["machine"]["packages"]["torch"] == found["versions"]["torch"]
    told = capsys.readouterr().out
    assert all(f"{way} {shape['seconds'][way]:.3f} s" in told for way in ways)
    assert f"bound {shape['bound']:.2f}" in told


def test_the_nodes_are_distinct_prefixes():
    batch = packing.batch_of(2, 64, 1, 4, 0.0, np.random.default_rng(0))
    lengths = np.bincount(batch.segment_L)
    assert packing.nodes_of(batch) == 2 * 64 + (lengths - 64).sum()
