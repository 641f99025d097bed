"""Tasks of others: τ-bench, the Berkeley leaderboard, files of JSON lines."""
