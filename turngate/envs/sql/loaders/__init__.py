"""Questions about databases of others."""
