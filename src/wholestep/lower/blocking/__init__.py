"""Blocking: large contractions as packed panels and tiles of registers, block of terms by block of terms."""
