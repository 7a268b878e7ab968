"""Rules in graph words: an operation that a target has no word for, as others that it has."""
