"""Programs as files of other systems: what they have no word for becomes what they have, and each prints it."""
