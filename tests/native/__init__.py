"""Native rows."""
