"""Python sources: one printer of graphs, and for each array library a table of how it spells an operation."""
