"""PyTorch's fast rows."""
