"""Gates: how much of an earned reward is paid."""
