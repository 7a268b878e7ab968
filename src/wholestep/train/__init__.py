"""Around the training step: real data, progress, and the report at the end."""
