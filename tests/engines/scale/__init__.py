"""Programs run by several processes at once."""
