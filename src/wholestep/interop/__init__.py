"""Programs of other libraries as functions here: each operator of theirs is a short function in NumPy's names."""
