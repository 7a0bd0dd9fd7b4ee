"""Which networks there are, by names and shapes."""
