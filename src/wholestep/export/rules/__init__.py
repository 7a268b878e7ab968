"""Rules in graph words: operations that a target lacks, written in operations that it has."""
