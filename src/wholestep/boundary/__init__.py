"""The public boundary: short tracebacks, and answers to the names and arguments of other libraries."""
