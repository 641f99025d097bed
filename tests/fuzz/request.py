"""What a policy is asked for where only the reply of its server matters."""

import numpy as np

from turngate.types import Message, Request, Sampling

REQUEST = Request(
    episode="e",
    task_id="t",
    ids=np.zeros(0, np.int32),
    turn=0,
    seed=1,
    max_tokens=8,
    sampling=Sampling(),
    messages=(Message(role="user", content="Hello?"),),
)
