"""random placeholder."""
