"""Programs as people write them in plain NumPy: none of them knows of this library."""
