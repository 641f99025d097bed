"""Whether an error says that memory ran out, on whatever device. No torch.

Where something is tried that may not work (a graph captured, a kernel compiled, a file read), memory that runs out
meanwhile says nothing about whether it works: the next try may succeed. Such places raise the error again.
"""

from __future__ import annotations

TOLD = ("out of memory", "can't allocate memory", "STATUS_ALLOC_FAILED")
"""Messages of CUDA and torch's allocator on a GPU, of torch's allocator on a CPU, and of CUDA's matrix libraries."""


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether ``error``, or what it was raised from, is an allocator's refusal; a compiler quotes it in its own."""
    while error is not None:
        refused = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
        if refused or (isinstance(error, RuntimeError) and any(text in str(error) for text in TOLD)):
            return True
        error = error.__cause__
    return False
