"""The MiniWoB++ pages of ``turngate/Web-v1``: served from the ``miniwob`` wheel, graded by their own scripts.

``site`` serves them, ``guard`` starts a page and reads its result, ``pages`` says what is known of each, ``reward``
turns a raw reward into ours, ``oracles`` play them, ``sources`` makes tasks of them.
"""
