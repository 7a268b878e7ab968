"""The cost model: floating-point operations, bytes and cache reuse of a lowered program."""
