"""Audits of imports from other libraries and exports to them."""
