"""Bufferization: liveness, in-place reuse and the assignment of buffers to offsets of one arena."""
