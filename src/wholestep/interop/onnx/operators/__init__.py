"""Handlers of ONNX operators: a short function over our NumPy for each, one table for each family."""
