"""AdamW with less memory: moments of eight bits, and moments kept in CPU memory beside a model on a GPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import torch

from turngate.trainer.learner import OptimizerName

Groups: TypeAlias = Sequence[dict[str, object]]
"""Parameter groups, as ``torch.optim`` takes them."""
BLOCK = 256  # values that share a scale
SMALL = 4096  # parameters of fewer values keep exact moments: they cost nothing, and norms are sensitive
PIECE = 2**22  # values that are updated at once, so that exact moments never exist for a whole matrix
LOG_RANGE = math.log(1e4)  # between the largest value of a block and the smallest that has a code
M_LEVELS, V_LEVELS = 127, 255


class Stepping(Protocol):
    """What the learner uses of an optimizer."""

    param_groups: list[dict[str, object]]

    def step(self) -> object:
        """Update the parameters by their gradients."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients."""

    def state_dict(self) -> dict[str, object]:
        """What ``load_state_dict`` reads."""

    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        """Go on from a saved state."""


def optimizer_of(
    name: OptimizerName, groups: Groups, *, lr: float, betas: tuple[float, float], offload: bool
) -> Stepping:
    """The optimizer of that name; with ``offload``, its state and its arithmetic are on the CPU."""
    parameters: Any = groups[0]["params"]
    fused = parameters[0].device.type == "cuda" and not offload

    def make(own: Groups) -> torch.optim.Optimizer:
        if name == "adamw_8bit":
            return AdamW8bit(own, lr=lr, betas=betas)
        return torch.optim.AdamW(list(own), lr=lr, betas=betas, fused=fused)

    return Offloaded(groups, make) if offload else make(groups)


class Offloaded:
    """An optimizer on copies of the parameters in CPU memory: gradients go there, updated weights come back."""

    def __init__(self, groups: Groups, make: Callable[[Groups], torch.optim.Optimizer]) -> None:
        self._pairs: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._inner = make([{**group, "params": self._twins(group["params"])} for group in groups])
        self.param_groups = self._inner.param_groups

    def _twins(self, parameters: Any) -> list[torch.Tensor]:
        pairs = [(one, one.detach().to("cpu", copy=True).requires_grad_()) for one in parameters]
        self._pairs += pairs
        return [twin for _, twin in pairs]

    def step(self) -> None:
        for parameter, twin in self._pairs:
            twin.grad = None if parameter.grad is None else parameter.grad.to("cpu")
        self._inner.step()
        self._inner.zero_grad(set_to_none=True)
        with torch.no_grad():
            for parameter, twin in self._pairs:
                parameter.copy_(twin)

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter, _ in self._pairs:
            parameter.grad = None

    def state_dict(self) -> dict[str, object]:
        return self._inner.state_dict()

    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        """See ``Stepping``; the parameters must have been restored before."""
        with torch.no_grad():
            for parameter, twin in self._pairs:
                twin.copy_(parameter)
        self._inner.load_state_dict(state_dict)
        self.param_groups = self._inner.param_groups


class AdamW8bit(torch.optim.Optimizer):
    """AdamW whose two moments are kept as one byte per value, in blocks of ``BLOCK`` values with one scale each.

    Codes are equally spaced in the logarithm, down to 1e-4 of the largest value of the block, so that small values keep
    their relative precision: 3.7 % for the first moment m, 1.8 % for the root of the second, v. A smaller m becomes 0,
    and a smaller v the smallest that has a code, which makes updates smaller and never larger. Parameters of fewer than
    ``SMALL`` values have exact moments. After "8-bit optimizers via block-wise quantization",
    https://arxiv.org/abs/2110.02861, whose codes are others.
    """

    def __init__(self, groups: Groups, *, lr: float, betas: tuple[float, float], eps: float = 1e-8) -> None:
        super().__init__(list(groups), {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: object = None) -> None:  # type: ignore[override]
        """One update of every parameter that has a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group)

    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        """See ``Stepping``; torch turns every state into the type of the parameter, so codes are turned back."""
        super().load_state_dict(state_dict)
        for state in self.state.values():
            if "m_code" in state:
                state["m_code"], state["v_code"] = state["m_code"].to(torch.int8), state["v_code"].to(torch.uint8)

    def _update(self, parameter: torch.Tensor, group: Mapping[str, Any]) -> None:
        state = self.state[parameter]
        state["step"] = state.get("step", 0) + 1
        weight, gradient = parameter.view(-1), parameter.grad.reshape(-1)  # type: ignore[union-attr]
        if len(weight) < SMALL:
            if "m" not in state:
                state["m"], state["v"] = torch.zeros_like(weight), torch.zeros_like(weight)
            self._descend(weight, gradient, state["m"], state["v"], state["step"], group)
            return
        if "m_code" not in state:
            n = -(-len(weight) // BLOCK)
            state["m_code"] = torch.zeros(n * BLOCK, dtype=torch.int8, device=weight.device)
            state["v_code"] = torch.zeros(n * BLOCK, dtype=torch.uint8, device=weight.device)
            state["m_scale"], state["v_scale"] = torch.zeros(2, n, device=weight.device).unbind()
        for start in range(0, len(weight), PIECE):
            at, blocks = slice(start, start + PIECE), slice(start // BLOCK, (start + PIECE) // BLOCK)
            m_code, v_code = state["m_code"][at], state["v_code"][at]
            n = len(weight[at])
            m, v = m_decoded(m_code, state["m_scale"][blocks]), v_decoded(v_code, state["v_scale"][blocks])
            self._descend(weight[at], gradient[at], m[:n], v[:n], state["step"], group)
            state["m_scale"][blocks] = encode_m(m, m_code)
            state["v_scale"][blocks] = encode_v(v, v_code)

    @staticmethod
    def _descend(
        weight: torch.Tensor,
        gradient: torch.Tensor,
        m: torch.Tensor,
        v: torch.Tensor,
        step: int,
        group: Mapping[str, Any],
    ) -> None:
        """AdamW, in place, on exact moments."""
        (beta1, beta2), lr = group["betas"], group["lr"]
        m.lerp_(gradient, 1 - beta1)
        v.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        root = (v / (1 - beta2**step)).sqrt_().add_(group["eps"])
        weight.mul_(1 - lr * group["weight_decay"]).addcdiv_(m, root, value=-lr / (1 - beta1**step))


# --- codes ------------------------------------------------------------------------------------------------------------


def m_decoded(code: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """First moments of int8 codes [n·BLOCK] and scales [n]: the sign of the code, its size the place on the scale."""
    size = torch.exp((code.float().abs() - M_LEVELS) * (LOG_RANGE / (M_LEVELS - 1)))
    return (size * code.sign()).view(-1, BLOCK).mul_(scale[:, None]).view(-1)


def encode_m(m: torch.Tensor, code: torch.Tensor) -> torch.Tensor:
    """Write the codes of ``m`` into ``code``; returns the scales."""
    blocks = m.view(-1, BLOCK)
    scale = blocks.abs().amax(1)
    level = _levels(blocks.abs(), scale, M_LEVELS)
    code.copy_((torch.where(level < 1, 0, level) * blocks.sign()).view(-1))
    return scale


def v_decoded(code: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Second moments of uint8 codes [n·BLOCK] and scales [n], which are those of their roots; code 0 is 0."""
    root = torch.exp((code.float() - V_LEVELS) * (LOG_RANGE / (V_LEVELS - 1)))
    return torch.where(code == 0, 0, root).view(-1, BLOCK).mul_(scale[:, None]).square_().view(-1)


def encode_v(v: torch.Tensor, code: torch.Tensor) -> torch.Tensor:
    """Write the codes of ``v`` into ``code``; returns the scales."""
    root = v.sqrt().view(-1, BLOCK)
    scale = root.amax(1)
    code.copy_(torch.where(root > 0, _levels(root, scale, V_LEVELS).clamp_(min=1), 0).view(-1))
    return scale


def _levels(size: torch.Tensor, scale: torch.Tensor, most: int) -> torch.Tensor:
    """The nearest level of each size: ``most`` for the largest of its block, 1 for 1e-4 of it, less below."""
    share = size / scale.clamp(min=torch.finfo(torch.float32).tiny)[:, None]
    return (most + share.log_() * ((most - 1) / LOG_RANGE)).round_()
