"""Checks and reports."""
