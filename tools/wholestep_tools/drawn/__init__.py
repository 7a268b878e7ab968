"""Random programs and training steps, each drawn anew from a seed, and the laws that they are judged by."""
