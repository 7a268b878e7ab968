"""What a caller meets where this library ends: short tracebacks, and answers to names and arguments of other ones."""
