"""The compiler driver: from a graph to an executable."""
