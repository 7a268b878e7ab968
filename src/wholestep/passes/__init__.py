"""Passes keep what a graph means and change how it says it. One file each; meaning unchanged, and idempotent."""
