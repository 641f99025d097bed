"""Whether a config fits its environments: found before any work."""
