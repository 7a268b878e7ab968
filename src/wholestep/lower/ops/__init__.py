"""Lowering rules of the primitives that are not fused: control flow, sorting, random numbers, LAPACK calls."""
