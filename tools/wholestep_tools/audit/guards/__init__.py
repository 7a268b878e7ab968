"""Audits of the guards against numbers that are not finite."""
