"""The training loop: fit, callbacks, history, loggers and evaluation."""
