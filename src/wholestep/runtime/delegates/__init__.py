"""Programs that an array library runs, from the words of exports: JAX, PyTorch and TensorFlow as devices."""
