"""Legalization: graph rewrites into the operations and layouts that lowering supports."""
