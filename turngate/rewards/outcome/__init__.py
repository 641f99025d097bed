"""Scores of outcomes, domain by domain: pure functions from plain data to numbers, and parts that a rubric names.

``answers`` short texts, numbers and lists · ``calls`` tool calls · ``sql`` queries and their results · ``search``
retrieval and citations · ``code`` tests, patches, diagnostics · ``gui`` clicks and step verdicts · ``calibration`` and
``confidence`` the stated and the measured probability of being right · ``votes`` several attempts · ``criteria``
weighted lists · ``formula`` and ``components`` how a part reads recorded evidence.

Conventions. A score that could not be measured is None (NaN in an array), never zero. Where a published reward can be
farmed (earned without solving the task), the default is a repaired form, of the same range if possible, and
``faithful=True`` gives the published one; the docstring says how it can be farmed. A part says which evidence it reads.
The verifier records that evidence at the end, gold answers included; or it computes the verdict itself with these
functions and records it under the name of the type.
"""
