"""Tools: typed functions that an agent may call, and the notations in which models write their calls."""
