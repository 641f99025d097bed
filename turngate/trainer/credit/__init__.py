"""Credit rules: each turns a ``TurnTable`` into one number per turn. Pure numpy, one function per published method.

The settings of a rule are keyword arguments. ``CREDITS`` maps the names of rules to their functions. ``TOKEN_CREDITS``
does so for rules that give one number per token, a ``TokenCredit``. ``VALUE_TARGETS`` has, for rules with a critic, the
function that computes what the critic learns. ``control`` holds negative controls, which are no rules of a config.
"""

from collections.abc import Callable, Mapping

from turngate.trainer.credit.arpo import arpo
from turngate.trainer.credit.bilevel_gae import bilevel_gae, bilevel_targets
from turngate.trainer.credit.canon import canon
from turngate.trainer.credit.capo import capo
from turngate.trainer.credit.clip_delta import clip, delta
from turngate.trainer.credit.dr_grpo import dr_grpo
from turngate.trainer.credit.empg import empg
from turngate.trainer.credit.gdpo import gdpo
from turngate.trainer.credit.gigpo import gigpo, gigpo_terms
from turngate.trainer.credit.grpo import grpo
from turngate.trainer.credit.hero import hero
from turngate.trainer.credit.igpo import igpo
from turngate.trainer.credit.imitation_weights import a_lol, awr, bfs_prover, imitate, rise, top_scored
from turngate.trainer.credit.implicit import istar, prime
from turngate.trainer.credit.lambda_grpo import lambda_grpo
from turngate.trainer.credit.maxrl import maxrl
from turngate.trainer.credit.mt_grpo import mt_grpo
from turngate.trainer.credit.ngrpo import ngrpo
from turngate.trainer.credit.opo import opo
from turngate.trainer.credit.pass_at_k import pass_at_k
from turngate.trainer.credit.per_token import (
    lambda_grpo_tokens,
    prime_tokens,
    reinforce_plus_plus_tokens,
    rl_zvp_tokens,
    token_gae,
    token_targets,
)
from turngate.trainer.credit.portool import portool
from turngate.trainer.credit.ppr import ppr
from turngate.trainer.credit.progress import progress
from turngate.trainer.credit.prorag import prorag
from turngate.trainer.credit.pure import pure
from turngate.trainer.credit.qae import qae
from turngate.trainer.credit.r3l import r3l
from turngate.trainer.credit.reinforce_plus_plus import reinforce_plus_plus, reinforce_plus_plus_baseline
from turngate.trainer.credit.returns import returns
from turngate.trainer.credit.riskpo import riskpo
from turngate.trainer.credit.rl_zvp import rl_zvp
from turngate.trainer.credit.rloo import rloo
from turngate.trainer.credit.rlvmr import rlvmr
from turngate.trainer.credit.sag import sag
from turngate.trainer.credit.spa import spa
from turngate.trainer.credit.spae import spae
from turngate.trainer.credit.step_grpo import step_grpo
from turngate.trainer.credit.tempo import tempo
from turngate.trainer.credit.terms import CreditTerm
from turngate.trainer.credit.tree_grpo import tree_grpo
from turngate.trainer.credit.tree_rl import tree_rl
from turngate.trainer.credit.tree_rpo import tree_rpo
from turngate.trainer.credit.turn_gae import turn_gae, value_targets
from turngate.types import FloatArray, TokenCredit

_RULES: tuple[Callable[..., FloatArray], ...] = (
    # a trajectory against its siblings
    grpo, rloo, dr_grpo, opo, reinforce_plus_plus, reinforce_plus_plus_baseline, qae, canon, ngrpo, maxrl, pass_at_k,
    riskpo, rl_zvp, gdpo, hero,
    # turn by turn
    returns, gigpo, sag, step_grpo, mt_grpo, turn_gae, igpo, empg, prorag, spa, pure, r3l, prime, istar, capo, rlvmr,
    ppr, clip, delta, progress, spae,
    # trees
    lambda_grpo, portool, tree_rpo, tree_grpo, tree_rl, tempo, arpo,
    # weights of imitation
    imitate, awr, a_lol, rise, bfs_prover, top_scored,
)  # fmt: skip
CREDITS = {rule.__name__: rule for rule in _RULES}

_TOKEN_RULES: tuple[Callable[..., TokenCredit], ...] = (
    token_gae, bilevel_gae, reinforce_plus_plus_tokens, prime_tokens, rl_zvp_tokens, lambda_grpo_tokens,
)  # fmt: skip
TOKEN_CREDITS = {rule.__name__: rule for rule in _TOKEN_RULES}

VALUE_TARGETS: Mapping[str, Callable[..., FloatArray]] = {
    "turn_gae": value_targets,
    "token_gae": token_targets,
    "bilevel_gae": bilevel_targets,
}

CREDIT_TERMS: Mapping[str, Callable[..., tuple[CreditTerm, ...]]] = {"gigpo": gigpo_terms}
"""The terms whose sum is a rule's credit, by the name of the rule; the functions take the arguments of the rule."""

__all__ = [
    "CREDITS",
    "CREDIT_TERMS",
    "TOKEN_CREDITS",
    "VALUE_TARGETS",
    "a_lol",
    "arpo",
    "awr",
    "bfs_prover",
    "bilevel_gae",
    "canon",
    "capo",
    "clip",
    "delta",
    "dr_grpo",
    "empg",
    "gdpo",
    "gigpo",
    "grpo",
    "hero",
    "igpo",
    "imitate",
    "istar",
    "lambda_grpo",
    "lambda_grpo_tokens",
    "maxrl",
    "mt_grpo",
    "ngrpo",
    "opo",
    "pass_at_k",
    "portool",
    "ppr",
    "prime",
    "prime_tokens",
    "progress",
    "prorag",
    "pure",
    "qae",
    "r3l",
    "reinforce_plus_plus",
    "reinforce_plus_plus_baseline",
    "reinforce_plus_plus_tokens",
    "returns",
    "rise",
    "riskpo",
    "rl_zvp",
    "rl_zvp_tokens",
    "rloo",
    "rlvmr",
    "sag",
    "spa",
    "spae",
    "step_grpo",
    "tempo",
    "token_gae",
    "top_scored",
    "tree_grpo",
    "tree_rl",
    "tree_rpo",
    "turn_gae",
]
