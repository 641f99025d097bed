"""Tools: typed functions that an agent may call, and the tool formats in which models write their calls."""
