"""The oracle."""
