"""The lock around LLVM and around the import of external functions, which a fork waits for."""

from wholestep.forks import Gate

GATE = Gate()
