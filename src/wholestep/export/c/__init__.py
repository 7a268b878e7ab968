"""C99: a step as source, a function for each kernel, and calls of them in the order of the plan."""
