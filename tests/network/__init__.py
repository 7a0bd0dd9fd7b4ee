"""The network and its fronts."""
