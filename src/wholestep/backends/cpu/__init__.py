"""The CPU: kernels become LLVM text, LLVM text becomes machine code in this process."""
