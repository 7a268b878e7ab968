"""Programs on graphics cards: their memory, their launches from the host, and a driver for each way to reach a card."""
