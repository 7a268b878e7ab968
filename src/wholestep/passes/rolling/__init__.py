"""Loops over equal layers that a user wrote out, rolled up: one layer's worth of program, whatever their number."""
