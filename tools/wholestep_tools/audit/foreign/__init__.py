"""Audits of what other libraries' programs become here, and ours there."""
