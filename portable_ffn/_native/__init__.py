"""The same, faster: emptied, every value is the same."""
