"""Slides that the agent writes as HTML: endless instructions, and measurements of the drawn page."""
