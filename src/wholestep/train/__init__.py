"""Training: the compiled step, loaders, the loop, checkpoints, inspection and estimators."""
