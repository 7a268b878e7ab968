"""Audits of several processes that train together."""
