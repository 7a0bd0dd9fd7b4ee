"""How a layer is read, and what the user holds."""
