"""linalg placeholder."""
