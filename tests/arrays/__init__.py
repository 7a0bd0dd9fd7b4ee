"""Tests of what is true of arrays of any library."""
