"""Code generation from fusion groups to the kernel language."""
