"""The verdict on a patch: which tests run, with what, on which files, and whether they were passed honestly."""
