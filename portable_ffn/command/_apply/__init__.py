"""One layer on an array larger than memory."""
