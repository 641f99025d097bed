"""What a CUDA graph does, on a CPU: operations are recorded with the memory that they read and write, and repeated
there without the Python that called them."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Tape(TorchDispatchMode):
    """Records (operation, arguments, settings, result) while it is entered; ``play`` repeats what it recorded."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        with self:  # operations that are made of others: only these are recorded
            result = func.decompose(*args, **kwargs)
        if result is NotImplemented:
            result = func(*args, **kwargs)
            self.calls.append((func, args, kwargs, result))
        return result

    def play(self):
        for func, args, kwargs, result in self.calls:
            again = func(*args, **kwargs)
            for there, new in zip(tree_leaves(result), tree_leaves(again), strict=True):
                if isinstance(there, torch.Tensor) and there.data_ptr() != new.data_ptr():  # a view is there already
                    there.copy_(new)


class Tapes:
    """A recorder of captured steps. ``recorded``: how many pieces of work it was given."""

    recorded = 0

    def __call__(self, device):
        return self._record

    def _record(self, work):
        self.recorded += 1
        with Tape() as tape:
            result = work()

        def replay():
            tape.play()
            return result

        return replay
