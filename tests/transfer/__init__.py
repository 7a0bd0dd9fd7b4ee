"""Between libraries."""
