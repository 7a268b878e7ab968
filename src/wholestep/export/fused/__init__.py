"""Functions that a library has as one operation, and their derivatives, where a step writes them out in arrays."""
