"""JAX, PyTorch and Dask at scale and under their transforms."""
