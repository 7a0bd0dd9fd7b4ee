"""NumPy's fast rows."""
