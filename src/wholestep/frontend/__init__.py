"""From the user's Python to graphs and back: traced arrays, NumPy's dispatch, transforms of Python functions."""
