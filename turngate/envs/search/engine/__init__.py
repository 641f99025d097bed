"""Documents, the passages that they are cut into, and retrievers."""
