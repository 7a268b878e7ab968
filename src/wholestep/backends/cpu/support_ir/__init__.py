"""Support functions in LLVM IR that every program links with."""
