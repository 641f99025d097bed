"""Votes of several critiques on the turns of one episode."""

from typing import Literal

import numpy as np
import numpy.typing as npt

from turngate.errors import ConfigError, ShapeError
from turngate.rewards.columns import Float64Array, flags


def capo_votes(
    bad_NC: npt.ArrayLike, *, mode: Literal["majority", "intersection", "average"] = "majority"
) -> Float64Array:
    """The joint verdict of C critiques on each turn, 1 = wrong: float64[N].

    "majority": more than half of the valid ones call it wrong; "intersection": all of them; "average": their share.
    An invalid critique (NaN) has no vote; no valid one leaves the turn without verdict (NaN). A tie is no majority.

    Source: https://arxiv.org/abs/2508.02298. Raises ShapeError for anything but 0, 1 or NaN, ConfigError.
    """
    if mode not in ("majority", "intersection", "average"):
        raise ConfigError(f"mode is '{mode}'; it must be 'majority', 'intersection' or 'average'")
    bad_NC = np.asarray(bad_NC, np.float64)
    if bad_NC.ndim != 2:
        raise ShapeError(f"bad_NC has shape {bad_NC.shape}, expected turns × critiques")
    flags("bad_NC", bad_NC, bad_NC.shape, missing="allowed")
    n_valid_N = (~np.isnan(bad_NC)).sum(axis=1)
    share_N = np.where(n_valid_N > 0, np.nansum(bad_NC, axis=1) / np.maximum(n_valid_N, 1), np.nan)
    if mode == "average":
        return share_N
    wrong_N = share_N > 0.5 if mode == "majority" else share_N == 1.0
    return np.where(np.isnan(share_N), np.nan, wrong_N)
