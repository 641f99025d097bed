"""A sample of the numeric tests with the instructions of other processors.

torch and its libraries choose what they compute with when they are loaded, so each processor is a process of its own.
To try any other test: the same variables before ``pytest``.
"""

import os
import platform
import subprocess
import sys

import pytest

PROCESSORS = {
    "DEFAULT": {
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "OMP_NUM_THREADS": "1",
    },
    "AVX2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OMP_NUM_THREADS": "2",
        "TEST_THREADS": "2",
    },
}
"""By what torch calls the instructions: none beyond those of every x86-64, and AVX2 without AVX-512, in two threads."""
SAMPLE = """
    agents/policies/test_captured.py::test_every_architecture_is_captured_and_computes_the_same
    agents/policies/test_lean.py::test_hidden_states_are_those_of_the_transformers_model
    agents/policies/test_local.py::test_logprobs_of_every_turn_are_those_of_a_plain_forward_pass
    trainer/loss/test_policy_loss.py
    trainer/test_token_gradients.py
    trainer/torch/test_learner.py::test_grouping_and_order_of_tokens_leave_the_gradient_unchanged
    trainer/torch/test_packing.py::test_the_gradient_is_that_of_rows
    trainer/torch/test_packing.py::test_what_is_wrong_is_far_beyond_what_counts_as_rounding
    trainer/torch/test_prediction.py::test_every_column_and_its_gradient_are_the_same_in_pieces
""".split()
RUN = """
import sys, pytest, torch
found = torch.backends.cpu.get_cpu_capability()
sys.exit(pytest.main(sys.argv[2:]) if found == sys.argv[1] else f"torch computes with {found}")
"""
LIMIT_S = 900  # it takes seconds, on a machine that does nothing else


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="other instructions than these")
@pytest.mark.parametrize("instructions", PROCESSORS)
@pytest.mark.timeout(LIMIT_S)
def test_numbers_agree_with_the_instructions_of_another_processor(instructions):
    arguments = ["-q", "-n", "0", "-p", "no:cacheprovider", *(f"tests/{name}" for name in SAMPLE)]
    done = subprocess.run(
        [sys.executable, "-c", RUN, instructions, *arguments],
        env={**os.environ, **PROCESSORS[instructions]},
        cwd=os.path.dirname(os.path.dirname(__file__)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
