"""Recorded episodes: judging a policy by them, and learning from them.

Off-policy evaluation: ``importance`` weighs each episode by how much likelier the policy would have made it;
``doubly_robust`` does so too and takes out of the weights what a model of the values explains; ``fitted_q`` is that
model; ``marginalized`` weighs turns by their states instead of episodes. ``estimates`` puts them together, says how
sure each is and refuses one that the episodes cannot carry. All of it is numpy. ``scored_turns`` makes their input of
recorded episodes.

Training: ``sources`` says where the episodes of a step come from, ``stored`` and ``mixed`` read them, ``replays``
choose which are replayed, ``episode_index`` is what they read by. ``usable`` says what episodes have to be,
``ratios`` how far the policy is from who played them. A part that ships is named here, so that a config finds it by its
type.
"""

from turngate.trainer.offline.mixed import MixedPart
from turngate.trainer.offline.replays import ReplayPart
from turngate.trainer.offline.sources import EpisodesPart, PlayedPart
from turngate.trainer.offline.stored import StoredPart

__all__ = ["EpisodesPart", "MixedPart", "PlayedPart", "ReplayPart", "StoredPart"]
