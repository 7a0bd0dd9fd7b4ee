"""What is told of a check."""
