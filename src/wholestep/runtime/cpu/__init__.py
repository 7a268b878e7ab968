"""The CPU launcher: loaded machine code, the thread pool and the imports of compiled code."""
