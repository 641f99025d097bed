"""A laboratory for credit: estimators against the exact policy gradient of small processes that can be enumerated.

    processes    what can happen: states, actions, stopping, rewards; each process is a table of edges
    paths        every episode of a process as a row; exact values, exact return, exact gradient
    draw         cohorts of siblings, or small trees, sampled many at a time, as a ``TurnTable``
    estimators   the registry: one line per estimator, with what it needs and whether it claims to be unbiased
    measure      bias, variance, cosine, sample size
    learn        training with each estimator; success is exact, not sampled
    report       csv, tables, figure

Run it with ``python -m benchmarks.credit_lab``; the results are in docs/credit_lab.md.
"""
