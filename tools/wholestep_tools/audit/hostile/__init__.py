"""Audits of input that nobody means well with: files, texts, paths and names."""
