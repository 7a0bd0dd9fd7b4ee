"""An array into another library."""
