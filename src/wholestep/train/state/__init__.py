"""The state of a step: parameters, optimizer state, counters, and the arrays that hold them."""
