"""A run: from its config to the objects that train.

``job`` is the whole run from warm start to the last evaluation. It uses ``demonstrations`` and ``warm_start`` (the
model that training begins from), ``environments`` (what is played), ``context_fit`` (does an episode fit into the
context), ``assemble`` (everything that a training step needs), ``credit`` (the credit rule and what it reads),
``learners`` and ``models``. ``lock`` keeps a second process out of the run's folder, ``loop`` and ``stopping`` end a
run in order.
"""
