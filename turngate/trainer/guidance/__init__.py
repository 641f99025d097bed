"""Guidance: a guide decides which episodes get help, such as a hint or the first turns of a solution.

It plans the first wave of episodes of each task, and may ask for further ones when it has seen the results. Credit
compares guided siblings with guided ones only, unguided with unguided, unless the guide says that they join. Evaluation
never asks a guide.

* ``base``: what a guide is, and what it gets to work with; ``plan``: what it answers; ``results``: what it reads;
* ``hint_guides``: hints of the environment; ``solutions``: parts of a solution as text, and whole ones as siblings;
  ``prefixes``, ``prefix_schedules``: a solution acts first; ``seele``: as much help as makes half of them succeed;
  ``reflect``: retries from a turn; ``screening``: more episodes for some tasks.
"""
