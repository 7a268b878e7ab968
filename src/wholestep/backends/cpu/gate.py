"""The way into LLVM, and to the imports of what compiled code calls: one thread at a time, never cut by a fork."""

from wholestep.forks import Gate

GATE = Gate()
