"""Questions from files of others."""
