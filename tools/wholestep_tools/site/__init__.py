"""The documentation site beyond its written pages: the reference from docstrings, examples as pages, and links."""
