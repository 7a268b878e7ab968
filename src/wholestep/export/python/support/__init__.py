"""Functions that printed sources take along: files read as text, and imported by none of this library."""
