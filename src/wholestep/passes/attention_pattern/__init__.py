"""Attention written out in arrays: found in a program, and replaced by attention by blocks."""
