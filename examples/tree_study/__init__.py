"""Trees of episodes against chains, and turn values by forking: ``python -m examples.tree_study``."""
