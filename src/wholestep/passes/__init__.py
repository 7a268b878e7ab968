"""Graph passes, one file each: idempotent rewrites that keep the meaning of a graph."""
