"""What is given to a network."""
