"""A run: from its config to the objects that train, and everything that it leaves on disk.

``job`` is the whole of it from warm start to report, ``assemble`` makes what a training step needs, ``environments``
holds what is played, ``columns`` what credit reads beyond payments, and ``models`` brings models to and from disk.
"""
