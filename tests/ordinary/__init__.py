"""Ordinary NumPy programs under the transforms, and what rewriting leaves alone."""
