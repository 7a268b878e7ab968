"""Audits of the cache of compiled code: damage, rivals, keys and folders."""
