"""Bytes of files, without trust."""
