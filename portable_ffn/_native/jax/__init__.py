"""JAX's fast rows."""
