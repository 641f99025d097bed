"""Recorded episodes: evaluating a policy on them, and learning from them.

Off-policy evaluation: ``importance`` weighs each episode by how much likelier the policy would have made it;
``doubly_robust`` does so for the part of the rewards that a model of the values does not explain; ``fitted_q`` is that
model; ``marginalized`` weighs turns by their states instead of episodes. ``estimates`` puts them together, gives each
an interval and refuses one for which the episodes are too few or too different. All of it is numpy. ``scored_turns``
makes their input of recorded episodes.

Training: ``sources`` says where the episodes of a step come from, ``stored`` and ``mixed`` read them, ``replays``
choose which are replayed, ``episode_index`` is the index that they read. ``usable`` says which episodes can be used,
``ratios`` how far the policy is from the one that played them.
"""
