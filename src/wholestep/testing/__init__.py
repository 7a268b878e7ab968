"""Laws that every primitive and every program must satisfy, for ours and for those that users add."""
