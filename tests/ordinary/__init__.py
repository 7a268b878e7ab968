"""Ordinary NumPy programs under the transforms, and the limits of rewriting."""
