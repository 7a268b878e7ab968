"""Ordinary NumPy in the user's own functions: they are traced from a rewritten copy in which calls can be answered."""
