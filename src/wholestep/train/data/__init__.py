"""Data: loaders, sources, sampling and file formats."""
