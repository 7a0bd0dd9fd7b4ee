"""What is true of arrays of any library."""
