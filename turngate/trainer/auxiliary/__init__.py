"""Auxiliary losses: rows that are learned beside the episodes of a step, by cross-entropy, towards a teacher, or
by preference.

Each kind is normalised by its own tokens, pairs or episodes, so long rows cannot own the step, and the norm of each
gradient is logged before they are added.

* ``base``: what an auxiliary loss is; ``learning``, ``preference``: losses and updates; ``pairing``: which episodes are
  pairs;
* ``relift``, ``oracle_share``, ``interventions``, ``kdrl``, ``thoughts``, ``lessons``, ``relabelled``,
  ``episode_pairs``, ``taught_attempts``: the auxiliary losses.
"""
