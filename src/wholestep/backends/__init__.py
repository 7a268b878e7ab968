"""Printers and launchers; so far the reference."""
