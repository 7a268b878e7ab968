"""The compiled step as users hold it."""
