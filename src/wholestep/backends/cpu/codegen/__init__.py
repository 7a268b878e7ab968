"""Kernels to LLVM text, with explicit vectors and unrolling as their schedules say."""
