"""Developers' tools for Wholestep: audits of its promises, and comparisons of speed and memory with other libraries."""
