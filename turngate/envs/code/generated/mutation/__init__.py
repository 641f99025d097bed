"""From Python packages to repair problems: their functions are broken on purpose, and their own tests decide."""
