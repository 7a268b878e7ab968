"""Programs that torch.export wrote, as functions here: a reader, and a handler for each operator."""
