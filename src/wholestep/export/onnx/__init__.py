"""ONNX as a format: the messages of its files, and programs written as models."""
