"""Core ML as a target: programs of MIL, built by coremltools, as packages for machines of Apple."""
