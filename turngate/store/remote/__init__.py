"""A run that is kept in a store of objects, such as S3: what stands there, how it is written and how it is read.

    ADDRESS/NAME/
        objects/SHA-256                  a part of a file, at most ``PART_BYTES`` long
        manifests/00000012.json          the run after so many commits: its files, and which objects they are made of
        heartbeat.json                   changes while a process works on the run

A commit writes new objects, then creates the next manifest, which is the one moment in which the state changes, then
deletes what only the older manifest names. A manifest is created once and never replaced, so of two writers one fails.
"""
