"""Judges, the live half: asks a model, within deadlines, under guards, and remembers.

``parts`` a judge as a config names it, ``speaker`` who is asked (any policy), ``openai`` a server, ``calls`` how often
and how long, ``settings`` within which limits, ``judge`` what can be asked, ``cache`` what is known already, ``docket``
for code that cannot await, ``check`` how good a judge is, on ``labelled`` work. What is asked and what it means
is in ``turngate.rewards.judge``.

Judging happens before scoring: what comes out are facts that are recorded, so a run is scored again without a judge.
A verifier asks, and yields the verdict as evidence; a verdict that could not be had is None, and the episode unusable:

>>> from turngate import FromEvidence, Observation, Outcome, Rubric, TurnEnv, TurnSpec
>>> from turngate.rewards.judge import Criterion, item_of_text, verdict_facts
>>> CIVIL = Criterion(name="civil", text="The letter is civil and answers the complaint.")
>>> class Letters(TurnEnv):
...     turn_spec = TurnSpec(
...         tools=(),
...         rubric=Rubric(rewards=(FromEvidence(name="civil", evidence="civil", kind="outcome"),)),
...         max_turns=1,
...         deadline_s=120.0,
...     )
...
...     def __init__(self, docket, **options):
...         super().__init__(**options)
...         self._docket = docket
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
...         yield from verdict_facts("civil", self._docket.pointwise(item, CIVIL), self._docket.id)

The environment gets a ``Docket(judge)``; ``judge`` is for instance ``Judge(OpenAISpeaker(URL, MODEL), cache=…)``:

>>> with Docket(judge) as docket:
...     env = Letters(docket, tasks=tasks)
...     _ = env.reset(seed=0)
...     _, reward, _, _, info = env.step("Dear Ms Lee, we are sorry. You get your money back today.")
>>> reward, [(fact.name, fact.by) for fact in info["evidence"]]
(1.0, [('answer', 'env'), ('civil', 'judge'), ('civil_judge', 'judge')])

Whatever can be judged after the episode is (``turngate.examine``): episodes, their steps, and siblings against each
other.
"""

from turngate.judging.docket import Docket
from turngate.judging.judge import Judge, JudgeReplies
from turngate.judging.labelled import read_labelled
from turngate.judging.lanes import Call
from turngate.judging.openai import OpenAISpeaker
from turngate.judging.parts import JudgePart, ModelJudge, PolicyJudge, ServerJudge
from turngate.judging.settings import JudgeSettings, Tally
from turngate.judging.speaker import Ask, PolicySpeaker, Reply, Speaker
from turngate.judging.trial import CheckResult, check
from turngate.judging.verdict_store import VerdictCache

__all__ = [
    "Ask",
    "Call",
    "CheckResult",
    "Docket",
    "Judge",
    "JudgePart",
    "JudgeReplies",
    "JudgeSettings",
    "ModelJudge",
    "OpenAISpeaker",
    "PolicyJudge",
    "PolicySpeaker",
    "Reply",
    "ServerJudge",
    "Speaker",
    "Tally",
    "VerdictCache",
    "check",
    "read_labelled",
]
