"""Audits of rounding: functions, sums and precisions against exact values."""
