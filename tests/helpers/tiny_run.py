"""What a config says of a tiny model that plays the toy in short turns, for tests that start runs of their own."""


def tiny_model(*, layers: int = 1, width: int = 32, episodes: int = 96, epochs: int = 4, policy: str = "") -> str:
    """Its sections ``model``, ``warm_start`` and ``policy``, with more lines of it."""
    return f"""
[model]
layers = {layers}
width = {width}
heads = 2
vocabulary = 300

[warm_start]
episodes = {episodes}
epochs = {epochs}
episodes_per_batch = 8
lr = 5e-3

[policy]
turn_tokens = 8
context = 256
concurrency = 8
{policy}
"""


def three_steps(env: str, *, kwargs: str = "", heldout: int) -> str:
    """A run of three steps of two groups on the environment of that id, with lines of its keyword arguments; evaluated
    on so many tasks."""
    return f"""
name = "run"

[env]
id = "{env}"
{kwargs and f"[env.kwargs]{chr(10)}{kwargs}"}

[learner]
lr = 1e-3

[train]
steps = 3
tasks_per_step = 2
group_size = 6
filters = []

[eval]
tasks = {heldout}
{tiny()}"""


def tiny(*, layers: int = 1, width: int = 32, policy: str = "") -> str:
    """The same after a short warm start, and a rule whose credit is never 0."""
    return f"""{tiny_model(layers=layers, width=width, episodes=16, epochs=1, policy=policy)}
[credit]
type = "tests.helpers.thinking_lock:alternating"
"""
