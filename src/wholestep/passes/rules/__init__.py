"""Peephole rules: local rewrites of movement, arithmetic and contraction labels."""
