"""Tensors as they are meant, whatever the files."""
