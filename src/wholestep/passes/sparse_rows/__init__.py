"""Updates of the rows that a gradient reaches: the gradient of a gather stays rows, through clipping and the update."""
