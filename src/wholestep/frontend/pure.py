"""Impurity checks: random generators and clocks are errors in a trace, which would freeze their values.

The states of random generators are compared before and after: NumPy's and Python's own, and those that the function can
read. So are numbers and arrays that it reads by name; one that has changed is a warning. Where some code of it names a
clock or asks the system for a seed, its calls of built-in functions are watched.
"""

from __future__ import annotations

import datetime
import dis
import functools
import os
import random
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from wholestep.errors import FrozenValueWarning, ImpurityError, Where, warn
from wholestep.frontend.array import Array
from wholestep.frontend.closure_reads import Reading, content, is_number_or_word, of_a_library, value_readings
from wholestep.frontend.conversions import KEYED
from wholestep.frontend.source.reading import nested_codes
from wholestep.frontend.source.rewriting import original_code

MOST = 4096
"""Objects that are looked at from one function; a container of more items is not looked into."""


@functools.cache
def generators() -> tuple[type, ...]:
    """The classes of generators; not at import, which numpy.random would take longer."""
    return (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)


class Shared(NamedTuple):
    """A process-wide generator: its name, and the module whose functions draw from it."""

    generator: Any
    name: str
    module: Any


def shared() -> dict[int, Shared]:
    """The process-wide generators by identity; PyTorch's among them where it is imported."""
    torch: Any = sys.modules.get("torch")
    found = [
        Shared(np.random.mtrand._rand, "NumPy's own generator", np.random),
        Shared(random._inst, "Python's own generator", random),
    ]
    if hasattr(torch, "default_generator"):
        found.append(Shared(torch.default_generator, "PyTorch's own generator", torch))
    return {id(one.generator): one for one in found}


CLOCKS = {
    *[getattr(time, n) for n in ("time", "perf_counter", "monotonic", "process_time", "thread_time")],
    *[getattr(time, f"{n}_ns") for n in ("time", "perf_counter", "monotonic", "process_time", "thread_time")],
    *(datetime.datetime.now, datetime.datetime.utcnow, datetime.date.today, datetime.datetime.today),
}
SEEDS = {os.urandom}
TELLING = {
    *[f.__name__ for f in (*CLOCKS, *SEEDS)],
    *("default_rng", "RandomState", "SeedSequence", "SystemRandom", "uuid1", "uuid4"),
    *("token_bytes", "token_hex", "token_urlsafe", "randbits", "randbelow", "qmc", "Sobol", "Halton", "LatinHypercube"),
}
"""Names in code that may read a clock or ask for a seed."""

SKIPPED = (np.ndarray, np.generic, Array, str, bytes, int, float, complex, type, type(None))


class _Active(threading.local):
    on = False


_active = _Active()


@contextmanager
def pure(f: Any, again: str) -> Iterator[None]:
    """Guard a trace of f; raises ImpurityError where a generator has advanced, or a clock is read.

    `again` names the step that would repeat the same numbers. A nested trace is checked as a part of the outer one, but
    for values that f reads: gives FrozenValueWarning where one of them has changed.
    """
    reach = Reach(f)
    values = value_readings(reach.functions, reach.owners)
    if _active.on:
        yield
        warn_of_frozen(values, reach, again)
        return
    before = [(name, generator, state_of(generator)) for name, generator in reach.generators]
    _active.on = True
    try:
        with watching(reach, again):
            yield
    finally:
        _active.on = False
    for name, generator, state in before:
        if state_of(generator) != state:
            refuse_draw(reach, name, generator, again)
    warn_of_frozen(values, reach, again)


def warn_of_frozen(values: list[Reading], reach: Reach, again: str) -> None:
    """Warn of the first value that the traced function has changed and reads."""
    changed = next((reading for reading in values if not reading.stays()), None)
    if changed is not None:
        change = "was bound to another array"
        if is_number_or_word(changed.then):
            change = f"was {changed.then!r:.40} and became {changed.look()!r:.40}"
        warn(
            f"trace: {changed.name} {change} while a function was traced, and every {again} sees the one of the trace",
            FrozenValueWarning,
            where=line_of_read(reach, re.findall(r"\w+", changed.name)[-1]),
            hint="pass what changes as an argument, in the batch, or in the carry of a loop",
        )


def line_of_read(reach: Reach, name: str) -> Where:
    """The first place in the user's functions that reads a name, an attribute or an item."""
    codes = [code for f in reach.functions for code in nested_codes(f.__code__)]
    found = [(code, one.offset) for code in codes for one in dis.get_instructions(code) if one.argval == name]
    return found[0] if found else None


class Reach:
    """The reach of a function: generators, each with its name, the user's functions that it may call, and the owners of
    those that are bound methods."""

    def __init__(self, f: Any) -> None:
        self.generators: list[tuple[str, Any]] = [(one.name, one.generator) for one in shared().values()]
        self.functions: list[FunctionType] = []
        self.owners: dict[Any, Any] = {}
        self.telling = False
        self.waiting: list[tuple[str, Any]] = [("", f)]
        self.seen = {id(g) for _, g in self.generators}
        for name, x in self.waiting:
            if len(self.seen) > MOST:
                break
            self.look(name, x)

    def add(self, name: str, x: Any) -> None:
        """Put an object on the list of those to visit, once."""
        if not isinstance(x, SKIPPED) and id(x) not in self.seen:
            self.seen.add(id(x))
            self.waiting.append((name, x))

    def look(self, name: str, x: Any) -> None:
        """Visit one object: a generator, a function, a container, or an instance with attributes."""
        if isinstance(x, generators()):
            self.generators.append((name, x))
        elif isinstance(x, FunctionType):
            self.function(x)
        elif isinstance(x, MethodType):
            plain = isinstance(x.__func__, FunctionType)
            if plain:
                self.owners[x.__func__] = x.__self__
            self.add("self" if plain else name or x.__name__, x.__self__)
            self.add(name, x.__func__)
        elif isinstance(x, functools.partial):
            for part in (x.func, *x.args, *x.keywords.values()):
                self.add(name, part)
        elif isinstance(x, list | tuple | set | frozenset | dict):
            for item in (x.values() if isinstance(x, dict) else x) if len(x) <= MOST else ():
                self.add(name, item)
        elif not isinstance(x, ModuleType):
            self.instance(name, x)

    def instance(self, name: str, x: Any) -> None:
        """Visit an object: its wrapped or bound object, or else its attributes and its class's methods."""
        if type(x) is BuiltinFunctionType:
            self.telling = self.telling or x in CLOCKS or x in SEEDS
            return self.add(name, None if isinstance(x.__self__, ModuleType) else x.__self__)
        held = getattr(x, "__dict__", None)
        attributes = dict(held) if type(held) is dict else {}
        if "__wrapped__" in attributes:
            return self.add(name, attributes["__wrapped__"])
        for field, value in attributes.items():
            self.add(f"{name}.{field}" if name else field, value)
        for kind in type(x).__mro__:
            if not is_library(kind.__module__):
                for method in list(vars(kind).values()):
                    self.add(name, getattr(method, "fget", None) or getattr(method, "__func__", method))

    def function(self, f: FunctionType) -> None:
        """Visit a function: the contents of its closure and defaults, and the globals that a user's function names."""
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            self.add(name, content(cell))
        for value in (*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()):
            self.add(f.__name__, value)
        self.add(f.__name__, getattr(f, "__wrapped__", None))
        if of_a_library(f):
            return
        self.functions.append(f)
        names = {name for code in nested_codes(f.__code__) for name in code.co_names}
        self.telling = self.telling or not TELLING.isdisjoint(names)
        for name in names:
            value = f.__globals__.get(name)
            if isinstance(value, ModuleType) and not is_library(value.__name__):
                for attribute in names:
                    self.add(f"{name}.{attribute}", vars(value).get(attribute))
            else:
                self.add(name, value)


def is_library(module: str) -> bool:
    """Test whether a module is Python's, ours or NumPy's."""
    root = module.partition(".")[0]
    return root in ("wholestep", "numpy", "scipy") or (root != "__main__" and root in sys.stdlib_module_names)


def state_of(generator: Any) -> Any:
    """The state of a generator, to be compared."""
    if isinstance(generator, random.Random):
        return None if isinstance(generator, random.SystemRandom) else generator.getstate()
    if isinstance(generator, np.random.RandomState):
        return state_bytes(generator.get_state(legacy=False))
    if hasattr(generator, "get_state"):  # one of PyTorch's
        return generator.get_state().numpy().tobytes()
    return state_bytes(getattr(generator, "bit_generator", generator).state)


def state_bytes(state: Any) -> Any:
    """A state with its arrays as bytes."""
    if isinstance(state, dict):
        return {name: state_bytes(x) for name, x in state.items()}
    return state.tobytes() if isinstance(state, np.ndarray) else state


def refuse_draw(reach: Reach, name: str, generator: Any, again: str) -> None:
    """Raise for a generator that has moved; not where that can only have been another thread."""
    where = line_of_draw(reach, generator, name.rpartition(".")[2])
    if where is None and id(generator) in shared() and threading.active_count() > 1:
        return
    code = reach.functions[0].__code__ if reach.functions else None
    raise ImpurityError(
        f"trace: numbers were drawn from {name or 'a generator'} while a function was traced, and every {again} would "
        "see the same ones",
        where=where or (None if code is None else (code, 0)),
        hint=KEYED,
    )


def line_of_draw(reach: Reach, generator: Any, name: str) -> Where:
    """The first place in the user's functions that reads a generator."""
    one = shared().get(id(generator))
    wanted = one and one.module
    for f in reach.functions:
        cells = {n: content(c) for n, c in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True)}
        known = {**f.__globals__, **cells}
        for code, at, found, attribute in loads(f.__code__, known):
            drawn = found is generator or getattr(found, "__self__", None) is generator
            if drawn or (wanted is not None and found is wanted) or (wanted is None and attribute == name):
                return code, at
    return None


def loads(code: CodeType, known: dict[str, Any]) -> Iterator[tuple[CodeType, int, Any, str]]:
    """The objects that instructions load, where they are known: a global, or an attribute of a module."""
    for one in nested_codes(code):
        last: Any = None
        for instruction in dis.get_instructions(one):
            op, name = instruction.opname, instruction.argval
            if op in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"):
                last = known.get(name)
            elif op in ("LOAD_ATTR", "LOAD_METHOD"):
                last = vars(last).get(name) if isinstance(last, ModuleType) else None
            else:
                last = None if op != "PRECALL" else last
                continue
            yield one, instruction.offset, last, name


@contextmanager
def watching(reach: Reach, again: str) -> Iterator[None]:
    """Refuse, inside the block, a clock or a seed that the user's functions read, with an error at that line.

    A profiler that runs already is left alone.
    """
    if not reach.telling or sys.getprofile() is not None:
        yield
        return
    codes = {code for f in reach.functions for code in nested_codes(f.__code__)}

    def look(frame: FrameType, event: str, called: Any) -> None:
        if event != "c_call" or type(called) is not BuiltinFunctionType:
            return
        if called in SEEDS:
            user: FrameType | None = frame
            while user is not None and original_code(user.f_code) not in codes:
                user = user.f_back
            if user is not None:
                refuse_reading("the system's random numbers were asked for", user, again)
        elif called in CLOCKS and original_code(frame.f_code) in codes:
            refuse_reading(f"the clock was read ({called.__name__})", frame, again)

    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(None)


def refuse_reading(what: str, frame: FrameType, again: str) -> None:
    raise ImpurityError(
        f"trace: {what} while a function was traced, and every {again} would see the same number",
        where=(frame.f_code, frame.f_lasti),
        hint="read it outside and pass it in; " + KEYED if "random" in what else "read it outside and pass it in",
    )
