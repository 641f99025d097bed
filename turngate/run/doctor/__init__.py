"""What a run would do with its model: ``turngate doctor``."""
