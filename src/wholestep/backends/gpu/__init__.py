"""Graphics cards: a target of workgroups, one walk over kernels, and a table of spellings for each language."""
