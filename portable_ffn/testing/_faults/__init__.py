"""Why: the table of known faults."""
