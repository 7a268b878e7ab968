"""Loop rerolling: equal layers that a user wrote out become scans, of one layer's code for any number of them."""
