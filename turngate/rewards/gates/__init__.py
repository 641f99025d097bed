"""Gates: what of an earned reward is paid."""
