"""The loss: one objective, corrections, penalties, and ``PolicyLoss``, which puts them together.

No module here loads torch before a loss is computed.

* ``tokens``: the data that a loss is computed from; ``base``: the families of parts;
* ``objectives``, ``imitation``, ``covariance``, ``thought_ratio``, ``corrections``, ``entropy``, ``kl``,
  ``convex_kl``, ``shaping``: the parts;
* ``policy_loss``: puts the parts together; ``settings``: the section ``loss`` of a config.
"""
