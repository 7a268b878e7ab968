"""LiteRT, once TensorFlow Lite, as a target: models of its own operations, converted by TensorFlow."""
