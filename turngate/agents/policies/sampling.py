"""The choice of tokens: the cumulative distribution of each row, inverted at a uniform number.

The random numbers and settings of a step are on the device before its pass is launched, so that the host waits for the
device once per step: when it reads the tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from turngate.agents.policies.truncation import truncated_logits
from turngate.types import Sampling


@dataclass(frozen=True, slots=True)
class _Cut:
    """Top-p and top-k of some rows: ``asked`` [r, 1]; None: of all."""

    top_p: float
    top_k: int
    asked: torch.Tensor | None


@dataclass(frozen=True, slots=True)
class Draws:
    """The random number and the settings of each row of a step, on the device."""

    uniform: torch.Tensor  # [r, 1], float64
    temperature: torch.Tensor | None  # [r, 1]; None: 1 for all
    greedy: torch.Tensor | None  # [r, 1]; None: no row
    cuts: tuple[_Cut, ...]

    @classmethod
    def of(cls, samplings: Sequence[Sampling], uniforms: Sequence[float], device: torch.device) -> Draws:
        """Row r draws from the distribution ``samplings[r]`` by the number ``uniforms[r]`` from [0, 1)."""
        temperatures = [one.temperature for one in samplings]
        heated = any(temperature not in (0, 1) for temperature in temperatures)
        cuts = []
        for top_p, top_k in sorted({(one.top_p, one.top_k) for one in samplings if one.truncates}):
            asked = [(one.top_p, one.top_k) == (top_p, top_k) for one in samplings]
            cuts.append(_Cut(top_p, top_k, None if all(asked) else torch.tensor(asked, device=device)[:, None]))
        return cls(
            uniform=torch.tensor(uniforms, dtype=torch.float64, device=device)[:, None],
            temperature=torch.tensor([t or 1.0 for t in temperatures], device=device)[:, None] if heated else None,
            greedy=torch.tensor([t == 0 for t in temperatures], device=device)[:, None] if 0 in temperatures else None,
            cuts=tuple(cuts),
        )

    def tokens(self, logits: torch.Tensor) -> tuple[list[int], list[float]]:
        """A token and its log-probability for each row of ``logits`` [r, V], under the distribution that it asks for.

        The log-probability is that of the cut and renormalised distribution; temperature 0 takes the likeliest token.
        """
        logits = self._distribution(logits)
        probability = torch.softmax(logits, dim=-1)
        cumulative = probability.cumsum(-1, dtype=torch.float64)  # in float32 a large vocabulary loses its tail
        total = cumulative[:, -1:]
        # strictly below the total, or rounding could choose what stands after the last token that was kept
        target = torch.minimum(self.uniform * total, torch.nextafter(total, torch.zeros_like(total)))
        chosen = torch.searchsorted(cumulative, target, right=True)
        chosen = chosen.clamp_(max=logits.shape[-1] - 1)  # logits that are no numbers; the canary reports them
        if self.greedy is not None:
            chosen = torch.where(self.greedy, logits.argmax(-1, keepdim=True), chosen)
        logprob = probability.gather(1, chosen).log()
        tokens, logprobs = torch.cat([chosen.double(), logprob.double()], 1).T.tolist()  # one wait for the device
        return [int(token) for token in tokens], logprobs

    def _distribution(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits of the sampling distribution: divided by the temperature, then cut by top-k and top-p."""
        if self.temperature is not None:
            logits = logits / self.temperature
        for one in self.cuts:
            cut = truncated_logits(logits, 1.0, one.top_p, one.top_k)
            logits = cut if one.asked is None else torch.where(one.asked, cut, logits)
        return logits
