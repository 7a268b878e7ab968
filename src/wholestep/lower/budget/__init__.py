"""A budget of memory: which values leave the arena between two uses, and how they come back."""
