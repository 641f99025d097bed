"""A run that is killed from outside, in the process of a test: nothing of it happens after that."""

from contextlib import contextmanager

import pytest

from turngate.foreign import Interruption
from turngate.sinks import SinkPart
from turngate.trainer import step as step_module


class Killed(Interruption):
    """What a kill is to the run."""


class KillSink(SinkPart):
    """Ends the run in its third step, after it was recorded and before its checkpoint."""

    def open(self, opening):
        return self

    def write(self, step, metrics):
        if step == 3:
            raise Killed

    def close(self):
        """Nothing is open."""


@contextmanager
def killed_in(step):
    """The run of the block is killed in this step, before it is finished."""
    real = step_module.finish

    async def dies(run, collected, updated):
        if collected.step == step:
            raise Killed
        return await real(run, collected, updated)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_module, "finish", dies)
        with pytest.raises(Killed):
            yield
