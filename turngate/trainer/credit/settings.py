"""Settings that several credit rules share, each with the help that ``turngate explain credit.RULE`` prints.

A setting of a single rule is defined in the same way above its function. For Python callers each is just its type;
bounds are checked when a config is read.
"""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from turngate.trainer.credit.baselines import OutcomeSource
from turngate.trainer.credit.tree import Merge

Eps: TypeAlias = Annotated[
    float,
    Field(
        ge=0,
        description="Added to what credit is divided by, in most rules a standard deviation, so that the quotient "
        "stays finite; raise it to give small differences less weight.",
    ),
]
Ddof: TypeAlias = Annotated[
    int,
    Field(
        ge=0,
        le=1,
        description="Divisor of the variance. 1: n − 1, the sample standard deviation, as torch computes it; 0: n, the "
        "population standard deviation.",
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
        description="λ of generalised advantage estimation. At 1 advantages rest on what was really paid, at 0 on the "
        "critic's values; a lower λ has less variance and more bias.",
    ),
]
Whitened: TypeAlias = Annotated[
    bool, Field(description="Whether credit is scaled to mean 0 and variance 1 over all tokens of the batch.")
]
Baseline: TypeAlias = Annotated[
    Literal["rloo", "none"],
    Field(
        description="What is subtracted from credit. rloo: the mean of what the other siblings earned; none: nothing, "
        "which has more variance."
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
    float | None,
    Field(
        description="An episode whose outcome and total payment both reach this is a success; in units of reward. "
        "Leave it out for what the rubric calls a success, unless a gate closed its payment."
    ),
]
Kl: TypeAlias = Annotated[
    float,
    Field(
        ge=0,
        description="Charge, in units of reward, for each nat of log-ratio to the reference model, 0.001 to 0.01 in "
        "use; raise it to stay closer to that model. 0 needs no reference model.",
    ),
]
ImplicitBeta: TypeAlias = Annotated[
    float, Field(ge=0, description="Reward for each nat of the reward model's log-ratio (β in the paper).")
]
EntropyAlpha: TypeAlias = Annotated[
    float,
    Field(
        ge=0,
        description="Credit for each nat of entropy where all siblings were paid the same (α in the paper); at 0 such "
        "siblings get no credit.",
    ),
]
Merged: TypeAlias = Annotated[
    Merge,
    Field(
        description="When two siblings share a turn. tokens: if its token ids are equal; action_observation: if they "
        "saw and did the same, whatever they thought; recorded: if one branched off the other after it."
    ),
]
ProcessWeight: TypeAlias = Annotated[
    float,
    Field(
        ge=0, description="Weight of what turns earn beside the outcome; raise it to follow the process signal more."
    ),
]
