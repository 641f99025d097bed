"""The loss: objectives, corrections and penalties, and what puts them together."""
