"""ONNX models as functions: a bounded reader, one handler for each operator, and parameters by name."""
