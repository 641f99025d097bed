"""Repair of code with real tests: ``turngate/CodeRepair-v1``."""
