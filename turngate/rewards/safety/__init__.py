"""Whether a rubric can pay a worse outcome more, proved from its declared ranges."""
