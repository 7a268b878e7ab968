"""A step as one HTML file: its kernels, its state and its data, and a runtime of ours that trains by WebGPU."""
