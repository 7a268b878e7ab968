"""The program of a step: loss, gradients and update as one traced function, and its compiled form."""
