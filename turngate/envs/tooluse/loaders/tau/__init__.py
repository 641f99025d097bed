"""The tasks of tau-bench and tau2-bench, read from a user's own checkout and graded as they are."""
