"""The settings of a run: ``run_config`` is the whole, made of ``sections``, ``stages`` and parts.

``overlays`` merges published methods into what a user wrote, before it is validated.
"""

from turngate.config.run_config import Config, load, load_run, parse

__all__ = ["Config", "load", "load_run", "parse"]
