"""Compiler threads: modules of LLVM text become objects while their writer writes the next ones."""

from __future__ import annotations

import threading

from wholestep import forks
from wholestep.backends.cpu.cpu_features import CpuTarget
from wholestep.backends.cpu.llvm_jit import LANES, object_code
from wholestep.exits import UNBROKEN


class ObjectCompiler:
    """A context manager that compiles modules on threads while its block writes them and passes each to `add`.

    LLVM runs without the interpreter's lock, so that compiler threads take none of the writer's time where there are
    enough processors. Each thread takes the next pending module; none begins another module once LLVM has refused one,
    and all have ended when the block ends, also by an exception. Modules that no thread has compiled, since the
    process ends or is a forked child, are compiled by the caller of `objects`.
    """

    def __init__(self, target: CpuTarget, most_threads: int = 1) -> None:
        self.target, self.most_threads = target, min(most_threads, len(LANES))
        self.texts: list[tuple[str, int]] = []
        self.made: dict[int, bytes] = {}
        self.errors: dict[int, BaseException] = {}
        self.closing = False
        self.workers: list[Worker] = []
        self.given, self.taking, self.taken = threading.Semaphore(0), threading.Lock(), 0
        forks.heir(self)

    def __enter__(self) -> ObjectCompiler:
        return self

    def __exit__(self, *_: object) -> None:
        self.closing = True
        self.finish()

    def add(self, text: str, opt: int = 3) -> None:
        """Queue a module for compilation; `opt` is as for `object_code`."""
        self.texts.append((text, opt))
        self.given.release()
        if len(self.workers) < self.most_threads:
            self.workers.append(Worker(self, len(self.workers)))
            try:
                self.workers[-1].thread.start()
            except RuntimeError:  # the interpreter ends, or there may be no more threads
                self.workers.pop()
                self.most_threads = len(self.workers)

    def objects(self) -> list[bytes]:
        """The objects of all modules, in their order; raises CodeError for the first module that LLVM refuses."""
        self.finish()
        if self.errors:
            raise self.errors[min(self.errors)]
        for number in range(len(self.texts)):
            if number not in self.made:
                self.compile(number, 0)
        return [self.made[number] for number in range(len(self.texts))]

    def finish(self) -> None:
        """Tell the threads to end, and wait until they have."""
        for _ in self.workers:
            self.given.release()
        for worker in self.workers:
            worker.wait()
        self.workers.clear()

    def next_module(self) -> int | None:
        """The number of the first module that no thread has taken; waits for one, and returns None if none follows."""
        self.given.acquire()
        with self.taking:
            number, self.taken = self.taken, self.taken + 1
        return None if self.closing or self.errors or number >= len(self.texts) else number

    def compile(self, number: int, lane: int) -> None:
        """Compile a module."""
        text, opt = self.texts[number]
        self.made[number] = object_code(text, self.target, opt=opt, lane=lane)

    def _forked(self) -> None:
        # The threads are not there, and may have left their locks closed.
        self.workers.clear()
        self.given, self.most_threads = threading.Semaphore(0), 0


class Worker:
    """A thread of a compiler, and the lane in which it generates code."""

    def __init__(self, compiler: ObjectCompiler, lane: int) -> None:
        self.compiler, self.lane, self.ended = compiler, lane, threading.Event()
        self.thread = threading.Thread(target=self.work, name="wholestep compiler", daemon=True)

    def work(self) -> None:
        """Compile modules until the compiler closes."""
        number: int | None = 0
        try:
            with UNBROKEN:
                while (number := self.compiler.next_module()) is not None:
                    self.compiler.compile(number, self.lane)
        except SystemExit:
            pass  # the process ends, and waits for the caller alone
        except BaseException as error:
            self.compiler.errors[number or 0] = error
        finally:
            self.ended.set()

    def wait(self) -> None:
        """Wait for the thread's end, unless it has never begun."""
        # Unlike a join, this can be interrupted everywhere. A thread whose start was interrupted may never end.
        while not self.ended.wait(0.1) and self.thread.is_alive():
            pass
        if self.ended.is_set():
            self.thread.join()
