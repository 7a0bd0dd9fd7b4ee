"""What each network is, decided once."""
