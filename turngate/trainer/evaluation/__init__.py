"""Success on given tasks, what a split shares with training, and the files that keep what was found."""
