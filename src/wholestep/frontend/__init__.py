"""The frontend: traced arrays, NumPy's dispatch, and transforms of Python functions."""
