"""What a person looks at after a run: ``tables`` with intervals, ``curves``, and ``show``, a trajectory turn by turn.

Import from the modules themselves; matplotlib is loaded when a curve is drawn, not before.
"""
