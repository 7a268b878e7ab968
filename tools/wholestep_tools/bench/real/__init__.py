"""Models of real size, each written once over a table of operations that every library fills in its own best way."""
