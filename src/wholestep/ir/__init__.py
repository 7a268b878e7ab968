"""The array language: what a program is, how it is built, checked and printed."""
