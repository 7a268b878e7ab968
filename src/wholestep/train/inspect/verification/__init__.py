"""Verification of a compiled step: its numbers beside float64, its derivatives beside differences, line by line."""
