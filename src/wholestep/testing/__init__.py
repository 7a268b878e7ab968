"""Laws that every primitive and every program must satisfy, those of the library and those that users add."""
