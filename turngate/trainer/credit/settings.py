"""Settings that several rules share, each with the help that ``turngate explain credit.RULE`` prints.

A setting of one rule alone stands above its function, in the same way. For Python callers and type checkers each is
its plain type; bounds hold where a config is read.
"""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from turngate.trainer.credit.baselines import OutcomeSource
from turngate.trainer.credit.tree import Merge

Eps: TypeAlias = Annotated[
    float,
    Field(
        ge=0,
        description="Added to the divisor of credit, in most rules a standard deviation, so that the quotient stays "
        "finite; raise it to give small differences less weight.",
    ),
]
Ddof: TypeAlias = Annotated[
    int,
    Field(
        ge=0,
        le=1,
        description="1: sample standard deviation, divided by n − 1, as torch computes it; 0: population standard "
        "deviation.",
    ),
]
Std: TypeAlias = Annotated[
    bool,
    Field(
        description="Whether credit is divided by the siblings' standard deviation; false keeps the scale of the "
        "reward."
    ),
]
Gamma: TypeAlias = Annotated[
    float,
    Field(
        ge=0,
        le=1,
        description="Discount per turn (γ); below 1, what is paid later counts less for the turns before it.",
    ),
]
TokenGamma: TypeAlias = Annotated[
    float,
    Field(
        ge=0,
        le=1,
        description="Discount per token (γ); below 1, what is paid later counts less, and long turns are "
        "discounted more.",
    ),
]
Lam: TypeAlias = Annotated[
    float,
    Field(
        ge=0,
        le=1,
        description="λ of generalised advantage estimation: 1 trusts what was really paid, 0 the critic; lower "
        "has less variance and more bias.",
    ),
]
Whitened: TypeAlias = Annotated[
    bool, Field(description="Whether credit is scaled to mean 0 and variance 1 over all tokens of the batch.")
]
Baseline: TypeAlias = Annotated[
    Literal["rloo", "none"],
    Field(
        description="rloo: subtract the mean of what the other siblings earned; none: subtract nothing, which has "
        "more variance."
    ),
]
Outcome: TypeAlias = Annotated[
    OutcomeSource,
    Field(
        description="Which outcome counts: settled: what was paid after all gates, penalties included; earned: "
        "before any gate, so that a vetoed cheat counts as a success."
    ),
]
Threshold: TypeAlias = Annotated[
    float,
    Field(description="An episode whose outcome and total payment both reach this is a success; in units of reward."),
]
Kl: TypeAlias = Annotated[
    float,
    Field(
        ge=0,
        description="How much of the divergence from the reference model, in nats, is taken out of the reward; 0 "
        "needs no reference model, 0.001 to 0.01 in use.",
    ),
]
ImplicitBeta: TypeAlias = Annotated[
    float, Field(ge=0, description="Reward for one nat of log-ratio of the reward model (β in the paper).")
]
EntropyAlpha: TypeAlias = Annotated[
    float,
    Field(
        ge=0,
        description="Credit for one nat of entropy where all siblings were paid the same (α in the paper); 0: "
        "such siblings teach nothing.",
    ),
]
Merged: TypeAlias = Annotated[
    Merge,
    Field(
        description="When two siblings share a turn: tokens: equal token ids; action_observation: they saw and "
        "did the same, whatever they thought; recorded: one branched off the other."
    ),
]
ProcessWeight: TypeAlias = Annotated[
    float,
    Field(
        ge=0, description="Weight of what turns earn beside the outcome; raise it to follow the process signal more."
    ),
]
