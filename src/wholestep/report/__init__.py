"""Reports on lowered programs: cost tables, explanations and memory plots."""
