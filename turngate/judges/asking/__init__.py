"""Judges: a model is asked about episodes, within time limits and with checks on the judge, and answers are remembered.

* ``parts``: a judge as a config names it; ``settings``: how it is asked, and within which limits;
* ``text_model``: the model behind a judge, which can be any policy; ``openai``: a model behind a server;
* ``offline``: text models that need no model, recorded replies and functions;
* ``judge``: the questions that a judge answers; ``blocking``: the same for code that cannot await;
* ``blocking_text_model``: a model that an environment asks for texts; ``user_models``, ``routed_models`` and
  ``written_passages`` are what environments do with it;
* ``judge_calls``: concurrent calls, time limits and retries; ``verdict_store``: answers on disk;
* ``trial``: how good a judge is, measured on ``labelled`` work.

The texts of the questions, and how replies are read, are in ``turngate.judges.texts``, which calls no model.

Judging happens before scoring. Verdicts are recorded as evidence, so a run can be scored again without a judge. Here an
environment's verifier asks, and yields the verdict as evidence. A verdict that could not be obtained is recorded as
None, which makes the episode unusable:

>>> from turngate import FromEvidence, Observation, Outcome, Rubric, TurnEnv, TurnSpec
>>> from turngate.judges.texts import Criterion, item_of_text, verdict_facts
>>> CIVIL = Criterion(name="civil", text="The letter is civil and answers the complaint.")
>>> class Letters(TurnEnv):
...     turn_spec = TurnSpec(
...         tools=(),
...         rubric=Rubric(rewards=(FromEvidence(name="civil", evidence="civil", kind="outcome"),)),
...         max_turns=1,
...         deadline_s=120.0,
...     )
...
...     def __init__(self, judge, **options):
...         super().__init__(**options)
...         self._judge = judge
...
...     def start(self, task, rng):
...         self._task, self._letter = task, ""
...         return Observation(text=task.prompt)
...
...     def act(self, action):
...         self._letter = action.text
...         return Outcome(observation=Observation(text="sent"), done=True)
...
...     def verify(self):
...         item = item_of_text(self._task.id, self._task.prompt, self._letter)
...         yield from verdict_facts("civil", self._judge.pointwise(item, CIVIL), self._judge.id)

The environment gets a ``BlockingJudge(judge)``, where ``judge`` is for instance
``Judge(OpenAITextModel(URL, MODEL), cache=…)``:

>>> with BlockingJudge(judge) as blocking_judge:
...     env = Letters(blocking_judge, tasks=tasks)
...     _ = env.reset(seed=0)
...     _, reward, _, _, info = env.step("Dear Ms Lee, we are sorry. You get your money back today.")
>>> reward, [(fact.name, fact.by) for fact in info["evidence"]]
(1.0, [('answer', 'env'), ('civil', 'judge'), ('civil_judge', 'judge')])

Judging that can wait until an episode has ended is left to ``turngate.judges.examiners``: of episodes, of their steps,
and of siblings against each other.
"""

from turngate.judges.asking.blocking import BlockingJudge
from turngate.judges.asking.judge import Judge, JudgeReplies
from turngate.judges.asking.judge_calls import Call
from turngate.judges.asking.labelled import read_labelled
from turngate.judges.asking.offline import FunctionJudge, RecordedJudge
from turngate.judges.asking.openai import OpenAITextModel
from turngate.judges.asking.parts import JudgePart, ModelJudge, PolicyJudge, ServerJudge
from turngate.judges.asking.settings import JudgeSettings, Tally
from turngate.judges.asking.text_model import PolicyTextModel, Prompt, Reply, TextModel
from turngate.judges.asking.trial import CheckResult, check
from turngate.judges.asking.verdict_store import VerdictCache

__all__ = [
    "BlockingJudge",
    "Call",
    "CheckResult",
    "FunctionJudge",
    "Judge",
    "JudgePart",
    "JudgeReplies",
    "JudgeSettings",
    "ModelJudge",
    "OpenAITextModel",
    "PolicyJudge",
    "PolicyTextModel",
    "Prompt",
    "RecordedJudge",
    "Reply",
    "ServerJudge",
    "Tally",
    "TextModel",
    "VerdictCache",
    "check",
    "read_labelled",
]
