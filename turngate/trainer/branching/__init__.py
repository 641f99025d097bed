"""Branching: episodes that begin inside of others, so that siblings share turns and form trees.

Without ``[branching]`` in the config the siblings of a task are chains, each played from the first turn on.
"""
