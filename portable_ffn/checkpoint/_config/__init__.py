"""What a config says, and the tables of families."""
