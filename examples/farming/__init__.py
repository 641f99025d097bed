"""What happens to a policy when a process reward can be farmed, and what gates change about it.

    python -m examples.farming --seeds 5

``env`` is the environment and its two rubrics, ``learn`` one training run, ``report`` what is written about all runs.
Importing this package registers the environment, as data.
"""

from turngate.envs.registry import register

register(
    "turngate-examples/HackableLock-v0",
    "examples.farming.env:HackableLockEnv",
    description="Toy: the lock of Lock-v1 with a useless tool that a careless rubric pays for.",
)
