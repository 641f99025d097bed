"""Your own site in ``turngate/Web-v1``: a folder of files or an address, and a function that verifies episodes."""
