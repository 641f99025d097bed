"""Examining: the stage between play and score.

An examiner looks at the episodes that were played, may ask models about them, and returns facts, which are recorded as
evidence. Everything slow or random has therefore happened before scoring, and a run can be scored again without models.

``base`` defines what an examiner is, ``run`` calls examiners, ``facts`` checks what they return. ``judged`` is shared
by those that ask a judge, ``recorded`` by several that read recorded evidence. Every other module holds examiners.
"""
