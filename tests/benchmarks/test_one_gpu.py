"""The benchmark for a GPU runs to its end on a CPU, in its small shape."""

import json

import pytest

from benchmarks.gpu import one_gpu


def test_it_runs_to_the_end_and_writes_what_it_prints(tmp_path, capsys):
    out = tmp_path / "found.json"
    one_gpu.main(["--shape", "tiny", "--updates", "1", "--out", str(out)])
    found = json.loads(out.read_text())
    assert found["command"].endswith("--shape tiny --dtype bfloat16 --updates 1")
    assert {"torch", "transformers", "turngate"} <= found["versions"].keys()
    assert found["sampled_per_update"] > 0.9 * 2 * 4 * 2 * one_gpu.SAID  # random weights seldom end a turn
    assert found["sampled_tokens_per_s"] > 0
    assert found["learned_tokens_per_s"] > 0
    assert (found["captured_sizes"], found["not_captured_because"]) == (2, "")  # 128 and 256 columns
    ratio = found["captured_tokens_per_s"] / found["plain_tokens_per_s"]
    assert found["captured_to_plain"] == pytest.approx(ratio)
    assert len(found["canary_nats"]) == 2
    assert max(found["canary_nats"]) < one_gpu.AGREE["bfloat16"]
    assert set(found["seconds"]) == {"sample", "measure", "gradient", "update", "publish"}
    assert all(found["profile"].values())
    assert "sampled_tokens_per_s" in capsys.readouterr().out
