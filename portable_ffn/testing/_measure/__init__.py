"""How far off."""
