"""From scored groups to what the learner gets: a table of turns, and flat arrays of tokens."""
