"""A compiler thread: modules of LLVM text become objects while their writer goes on to the next ones."""

from __future__ import annotations

import threading

from wholestep import forks
from wholestep.backends.cpu.cpu_features import CpuTarget
from wholestep.backends.cpu.llvm_jit import object_code
from wholestep.exits import UNBROKEN


class ObjectCompiler:
    """`with ObjectCompiler(target) as compiler:` around the writing of modules, each of which is given to `add`.

    LLVM leaves the interpreter to others while it runs, so that a thread of its own takes none of the writer's time. It
    compiles one module after the other, stops at the first that LLVM refuses, and is gone when the block ends, however
    it ends. What it cannot do, since the process ends or is a forked child, is done by the caller of `objects`.
    """

    def __init__(self, target: CpuTarget) -> None:
        self.target = target
        self.texts: list[tuple[str, int]] = []
        self.made: list[bytes] = []
        self.error: BaseException | None = None
        self.closing = False
        self.given, self.ended = threading.Semaphore(0), threading.Event()
        self.thread: threading.Thread | None = None
        forks.heir(self)

    def __enter__(self) -> ObjectCompiler:
        return self

    def __exit__(self, *_: object) -> None:
        self.closing = True
        self.finish()

    def add(self, text: str, opt: int = 3) -> None:
        """Have a module compiled; `opt` is as for `object_code`."""
        self.texts.append((text, opt))
        self.given.release()
        if len(self.texts) == 1:
            self.thread = threading.Thread(target=self.work, name="wholestep compiler", daemon=True)
            try:
                self.thread.start()
            except RuntimeError:  # the interpreter ends, or there may be no more threads
                self.thread = None

    def objects(self) -> list[bytes]:
        """The objects of all modules, in their order; raises CodeError for the first module that LLVM refuses."""
        self.finish()
        if self.error is not None:
            raise self.error
        while len(self.made) < len(self.texts):
            self.compile_next()
        return self.made

    def finish(self) -> None:
        """Let the thread come to its end, and wait for that."""
        self.given.release()
        if self.thread is None:
            return
        # Unlike a join, this can be interrupted everywhere. A thread whose start was interrupted may never end.
        while not self.ended.wait(0.1) and self.thread.is_alive():
            pass
        if self.ended.is_set():
            self.thread.join()
        self.thread = None

    def work(self) -> None:
        """Compile what is given, until no more comes."""
        try:
            with UNBROKEN:
                while True:
                    self.given.acquire()
                    if self.closing or len(self.made) == len(self.texts):
                        return
                    self.compile_next()
        except SystemExit:
            pass  # the process ends, and waits for the caller alone
        except BaseException as error:
            self.error = error
        finally:
            self.ended.set()

    def compile_next(self) -> None:
        """Compile the first module that is left."""
        text, opt = self.texts[len(self.made)]
        self.made.append(object_code(text, self.target, opt=opt))

    def _forked(self) -> None:
        self.thread = None
