"""The MiniWoB++ pages of ``turngate/Web-v1``: served from the ``miniwob`` wheel, graded by their own scripts.

``miniwob_site`` serves them, ``page_guard`` starts a page and reads its result, ``known_pages`` has facts about each,
``reward`` turns a raw reward into ours, ``oracles`` play them, ``sources`` makes tasks of them.
"""
