"""``turngate/Router-v1``: an agent that answers questions and may ask several models, each at its price.

``env`` is the environment, ``askable`` how a config names the models, ``sources`` where questions come from, ``rubric``
the payments. ``specialists`` are small functions that play models in generated tasks.
"""
