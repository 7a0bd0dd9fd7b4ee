"""Where: libraries, devices, dtypes."""
