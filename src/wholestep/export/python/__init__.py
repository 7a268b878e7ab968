"""Python sources: one printer of graphs, and for each array library a table of how it spells an operation.

Files in `support/` are read as text, so that folder is no package.
"""
