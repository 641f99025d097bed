"""The multi-turn tasks of the Berkeley Function Calling Leaderboard (BFCL), as its wheel ``bfcl-eval`` has them."""
