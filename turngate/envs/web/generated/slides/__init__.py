"""Slides that the agent writes as HTML: endless instructions, and what is measured of the page that was drawn."""
