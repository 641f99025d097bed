"""How much memory torch's allocator handed out on the CPU while something ran."""

import gc
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile


def bytes_of(work: Callable[[], object]) -> tuple[int, int]:
    """(most bytes at once, bytes at the end) beyond those before ``work``."""
    gc.collect()  # what earlier tests left behind would count as given back, if it were collected meanwhile
    gc.disable()
    try:
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
            work()
    finally:
        gc.enable()
    events = [one for one in recorded.profiler.kineto_results.events() if one.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda one: one.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most, now


torch.set_num_threads(1)
