"""Tables and pictures for people: ``summary`` of a run, ``tables``, ``curves``, ``monitors``; ``show`` of an episode.

Import from the modules themselves. Matplotlib is loaded when a picture is drawn, not before.
"""
