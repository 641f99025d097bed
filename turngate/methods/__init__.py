"""Published methods, each an overlay: a TOML file of settings that is merged into a config, with a head on the paper.

``overlay`` reads and finds them, ``turngate.config.overlays`` puts them into a config. ``turngate train my.toml
--method gigpo`` names one, so does ``method = "gigpo"`` in the file. A package adds its own by entry points of the
group ``turngate.methods``.
"""
