"""Tools of those who develop Wholestep: audits of what it promises, and comparisons of speed and memory with others."""
