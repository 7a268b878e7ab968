"""Transforms change what a graph means: forward derivative, reverse derivative, batching. Graphs in, graphs out."""
