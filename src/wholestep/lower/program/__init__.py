"""The lowered program: buffers, launches, library calls and control flow, and walks over its steps."""
