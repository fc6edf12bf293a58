"""Where images come from, in which order, how they are prepared, and with which holes."""
