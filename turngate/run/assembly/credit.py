"""Credit in a run: the rule, also under a negative control, and the signals that measure the columns it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from turngate.agents.chat import Chat
from turngate.config.run_config import Config, load_run
from turngate.envs.base import TurnEnv
from turngate.errors import ConfigError
from turngate.judges.examiners.recorded import fill_template
from turngate.run.environments import Environments, naming_key
from turngate.store.folder import RunFolder
from turngate.trainer.batch.pack import by_turn
from turngate.trainer.batch.table import tabulate
from turngate.trainer.credit import implicit
from turngate.trainer.credit.control import random_reward, shuffle_between_trajectories, shuffled_reward
from turngate.trainer.credit.rule import CreditRule
from turngate.trainer.filters.parts import Filter
from turngate.trainer.learner import Learner, Measuring
from turngate.trainer.offline.replays import ReplayPart
from turngate.trainer.signals.base import Signal, Signals
from turngate.trainer.signals.beliefs import Beliefs, Entropies
from turngate.trainer.signals.continuations import ContinuationValues
from turngate.trainer.signals.kl_reward import Divergence, with_kl_in_reward
from turngate.trainer.signals.log_ratios import LearnedLogRatios, LogRatios
from turngate.trainer.signals.recorded_columns import EvidenceColumns, TokenRows
from turngate.trainer.signals.said_thoughts import SaidThoughts
from turngate.trainer.signals.similar import SharedTokens, SimilarStates
from turngate.trainer.signals.values import Values
from turngate.types import Credit, FloatArray, ScoredGroup, Task, TokenRule, TurnTable, derive_seed

UNNAMED = "grpo"
"""The credit rule of a config that names none."""
LOG_RATIOS = frozenset({"logratio_N", "logratio_S"})
Answer = Callable[[Task], tuple[str, str]]
"""From a task to (what the assistant writes before the answer, the right answer)."""


def rule_of(config: Config, control: str | None) -> Credit | TokenRule:
    """The credit rule of a training run. The control ``shuffled_credit`` gives each credit to another trajectory."""
    rule = config.credit

    def shuffled(table: TurnTable) -> FloatArray:
        credit_N = by_turn(rule(table), table.n_turns)
        return shuffle_between_trajectories(table, credit_N, _seed_of(table, config, "shuffle"))

    return shuffled if control == "shuffled_credit" else rule  # type: ignore[return-value]


def own_rule(config: Config) -> CreditRule | None:
    """The run's credit rule, to be used on recorded episodes.

    None if it read columns that only training measures, such as a critic's values, because these are not stored.
    """
    try:
        found = config.credit.reads(config.signals.recorded, siblings=config.train.group_size, branching=True)
    except ConfigError:
        return None
    return config.credit if config.columns <= found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRule:
    """How the credit of a run's recorded episodes is computed again.

    ``rule``: None if it reads values that only training measures. ``name`` is its type, ``whose`` says where it comes
    from; ``imitates``: see ``CreditRule``.
    """

    rule: CreditRule | None
    name: str
    whose: str
    filters: Mapping[str, Filter]
    imitates: bool = False
    joined: str = ""
    """The replay part whose recorded episodes were compared with these groups and are missing here; "" for none."""
    charged: bool = False
    """Whether training took a KL off the payments (``signals.kl_in_reward``), which is not recorded."""
    signals: Signals = field(default_factory=Signals)
    """The columns beside payments that the rule reads, as far as the record holds them."""

    @property
    def note(self) -> str:
        """A caveat about credit that is computed again; "" for none."""
        if self.charged:
            return (
                "signals.kl_in_reward took a KL off the payments, which is not recorded: credit is that of the "
                "payments alone, not what was learned from"
            )
        return self.joined and (
            f"episodes.replay '{self.joined}' let recorded episodes join these groups, which are not recorded with "
            "them: credit is that of the fresh episodes alone, not what was learned from"
        )

    def table(self, groups: Sequence[ScoredGroup]) -> TurnTable:
        """What the rule reads of recorded groups."""
        return self.signals.measure(groups, tabulate(groups))[0]


def recorded_rule(run: RunFolder) -> RecordedRule:
    """The rule of a run, or for an imported log, which has none, the default one without filters."""
    if run.is_imported:
        rule = CreditRule.load(UNNAMED)
        return RecordedRule(rule=rule, name=rule.type, whose="as for a run that names no rule", filters={})
    config = load_run(run)
    replay, own = getattr(config.episodes, "replay", None), own_rule(config)
    return RecordedRule(
        rule=own,
        name=config.credit.type,
        whose="the run's own rule",
        filters=config.filters,
        imitates=config.credit.imitates,
        joined=replay.type if isinstance(replay, ReplayPart) and replay.joins else "",
        charged=config.signals.kl_in_reward is not None,
        signals=Signals() if own is None else Signals(sources=tuple(_recorded_signals(config))),
    )


def _recorded_signals(config: Config) -> Iterator[Signal]:
    """The signals for columns that the record of the episodes holds (``SignalsSection.recorded``)."""
    if any(name.endswith("_S") for name in config.columns):
        yield TokenRows()
    if "sharing_S" in config.columns:
        yield SharedTokens()
    if config.signals.evidence:
        yield EvidenceColumns(config.signals.evidence)
    if (similar := config.signals.similar) is not None:
        yield SimilarStates(threshold=similar.threshold, unit=similar.unit)


def signals_of(
    config: Config,
    *,
    control: str | None,
    learner: Learner,
    reward_model: Learner | None,
    reference: Measuring | None,
    chat: Chat,
    answer: Answer | None,
    scorer: Measuring | None = None,
) -> Signals:
    """The signals for the columns that the credit rule reads beyond payments, and for those that the loss reads.

    ``reward_model`` is the learner of an implicit reward model; it is given if ``trains_reward_model`` is true.
    ``reference`` measures under the model that training begins from; it is given if ``needs_reference`` is
    true. ``answer`` is the result of ``answer_of``. ``scorer`` measures under ``reward_model.fitted``, if there is one.
    """
    reads, section = config.columns, config.signals
    sources = list(_recorded_signals(config))
    if config.value is not None:
        sources.append(_values(config, learner, per_token="value_S" in reads))
    if config.loss.needs_thoughts:
        sources.append(SaidThoughts(chat))
    if config.branching is not None and config.branching.values:
        sources.append(ContinuationValues(config.branching.values))
    if reads & {"entropy_N", "entropy_S"}:
        sources.append(Entropies(learner))
    if answer is not None:
        sources.append(Beliefs(learner=learner, chat=chat, answer=answer, log=section.log_gain))
    if reward_model is not None:
        sources.append(_reward_model(config, reward_model, reference, learner))
    elif reads & LOG_RATIOS:
        assert reference is not None
        sources.append(LogRatios(model=scorer or learner, base=reference))
    if section.kl_in_reward is not None:
        assert reference is not None
        sources.append(Divergence(policy=learner, base=reference))
    learners = {} if reward_model is None else {"reward_model": reward_model}
    return Signals(sources=tuple(sources), learners=learners, view=partial(_seen, config, control))


def _seen(config: Config, control: str | None, table: TurnTable) -> TurnTable:
    """The table as credit rule and critic see it: with the KL penalty taken off the rewards, if that is set.

    Under the controls ``random_reward`` and ``shuffled_reward`` the rewards are false. The KL penalty stays true: it
    stays with the turns that it is about.
    """
    if control == "random_reward":
        table = random_reward(table, _seed_of(table, config, "coin"))
    elif control == "shuffled_reward":
        table = shuffled_reward(table, _seed_of(table, config, "exchange"))
    if config.signals.kl_in_reward is not None:
        table = with_kl_in_reward(table, coef=config.signals.kl_in_reward)
    return table


def trains_reward_model(config: Config) -> bool:
    """Whether the run trains a separate implicit reward model beside the policy."""
    return config.reward_model is not None and config.reward_model.model == "trained"


def needs_reference(config: Config) -> bool:
    """Whether the loss or the credit rule compares with the model that training began from."""
    if config.loss.needs_reference or config.signals.kl_in_reward is not None:
        return True
    if trains_reward_model(config):
        return implicit.REWARD_MODELS[config.credit.type][1] == "start"
    return bool(config.columns & LOG_RATIOS)


def answer_of(config: Config, environments: Environments) -> Answer | None:
    """A function from a task to its right answer, for rules that read how likely the policy finds it; None for other
    rules.

    Raises ConfigError if neither ``signals.answer`` nor an oracle gives the answer.
    """
    if "gain_N" not in config.columns:
        return None
    template = config.signals.answer
    if template is not None:
        for label, _ in environments:
            for task in environments.heldout(label, environments.sections[label].split, 1):
                with naming_key("signals.answer"):
                    fill_template(template, task)  # raises before any work
        return partial(fill_template, template)
    for label, env in environments:
        if not env.turn_spec.has_oracle:
            raise ConfigError(
                f"credit '{config.credit.type}' reads gain_N, which needs the right answer of each task, and '{label}' "
                'has no oracle to give it; set signals.answer, for instance "{gold}" where the task keeps the answer '
                "in its private data under that name"
            )

    def by_oracle(task: Task) -> tuple[str, str]:
        env: TurnEnv = environments.of(task)
        return "", "\n".join(env.oracle(task))

    return by_oracle


def _values(config: Config, learner: Learner, *, per_token: bool) -> Signal:
    assert config.value is not None
    discounts = {name: value for name, value in config.credit.settings().items() if name.startswith("gamma")}
    targets = partial(config.credit.value_targets, lam=config.value.lam, **discounts)
    return Values(learner=learner, targets=targets, per_token=per_token, bootstrap=config.value.bootstrap)


def _reward_model(config: Config, model: Learner, reference: Measuring | None, policy: Learner) -> Signal:
    name, against = implicit.REWARD_MODELS[config.credit.type]
    base = reference if against == "start" else policy
    assert base is not None
    losses = {"cross_entropy": implicit.cross_entropy, "preference": implicit.preference}
    loss = partial(losses[name], beta=config.credit.settings()["beta"])
    return LearnedLogRatios(model=model, base=base, loss=loss)


def _seed_of(table: TurnTable, config: Config, purpose: str) -> int:
    """A seed that depends on the table and not on a counter, so that a resumed run draws the same numbers."""
    return derive_seed(config.seed, purpose, table.state_N.tobytes().hex(), table.reward_N.tobytes().hex())
