"""`wholestep audit refusals`: calls that NumPy refuses are refused by documented errors, and no other ones come out."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import wholestep as ws
from wholestep import tree
from wholestep.errors import WholestepError
from wholestep.frontend import dispatch, ufunc_rules
from wholestep.frontend.tracing import enter, scope
from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.record import record

CLAIM = "A covered call of NumPy on operands that make no sense ends in a documented error, or in what NumPy computes"
MOST_TAKEN = 1 / 300
"""The share of calls that NumPy refuses and this library computes, values and all: extensions, and slips of NumPy's."""
OTHERWISE = {
    "numpy.linalg.eig": "its dtype depends on the values: complex here",
    "numpy.linalg.eigvals": "its dtype depends on the values: complex here",
    "numpy.polymul": "how many leading zeros NumPy drops depends on the values",
    "numpy.vdot": "an empty list has the dtype of the other operand in NumPy",
    "numpy.dot": "an empty list has the dtype of the other operand in NumPy",
    "numpy.poly": "NumPy makes it real where the values are pairs",
    "numpy.quantile": "NumPy keeps integers where q is one",
    "numpy.percentile": "NumPy keeps integers where q is one",
    "numpy.nanstd": "NumPy takes any text for a mask",
    "numpy.nanvar": "NumPy takes any text for a mask",
    "numpy.vsplit": "a truth value of NumPy is no number of parts",
    "numpy.roots": "its dtype depends on the values: complex here",
    "numpy.linalg.pinv": "NumPy leaves the dtype of empty matrices of integers as it is",
    "numpy.nanpercentile": "NumPy does not look at the method where there are no numbers",
    "numpy.nanquantile": "NumPy does not look at the method where there are no numbers",
}
"""Functions whose result or refusal is another one than NumPy's, with the reason."""
NUMPYS = (TypeError, ValueError, IndexError, OverflowError, MemoryError)
"""NumPy's own errors, before this library is asked, for operands that do not fit the parameters of a call."""
SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (3,), (4,), (2, 3), (3, 2), (3, 3), (1, 0), (2, 3, 4), (5, 1, 2))
DTYPES = ("f8", "f4", "f2", "i8", "i4", "u1", "u8", "?", "c16", "c8")
ENDLESS = 2**40
ODD: tuple[Any, ...] = (
    None,
    -1,
    0,
    1,
    2,
    7,
    -9,
    ENDLESS,
    0.5,
    float("nan"),
    "axis",
    "C",
    "f4",
    "left",
    True,
    False,
    (),
    (0,),
    (0, 0),
    (1, -1),
    (0, 5),
    [1, 2],
    [],
    "ij,jk->ik",
    "i->",
    slice(None),
    ...,
    1j,
    b"x",
    np.float64,
    "no such dtype",
)
"""Arguments in the place of a number, an axis, a shape or a dtype."""
LEFT_OUT = frozenset("save savez savez_compressed savetxt load loadtxt genfromtxt fromfile memmap lookfor info".split())


def callables() -> dict[str, Callable[..., Any]]:
    """The covered functions of NumPy, ufuncs among them."""
    found = {name: f for name, f in dispatch.NAMES.items() if name.startswith("numpy.")}
    known = {n for n in (*ufunc_rules.DIRECT, *ufunc_rules.COMPOSED) if isinstance(getattr(np, n, None), np.ufunc)}
    found |= {f"numpy.{name}": getattr(np, name) for name in known}
    return {name: f for name, f in sorted(found.items()) if name.rpartition(".")[2] not in LEFT_OUT}


def drawn(rng: np.random.Generator) -> Any:
    """An operand: mostly an array of some shape and dtype."""
    if rng.random() < 0.25:
        return ODD[int(rng.integers(len(ODD)))]
    shape = SHAPES[int(rng.integers(len(SHAPES)))]
    return (rng.normal(size=shape) * 3).astype(DTYPES[int(rng.integers(len(DTYPES)))])


def arguments(function: Callable[..., Any], rng: np.random.Generator) -> tuple[list[Any], dict[str, Any]]:
    """Operands of a call, about as many as it takes, and some of its options."""
    names = options(function)
    least = getattr(function, "nin", int(rng.integers(1, 4)))
    given = [drawn(rng) for _ in range(max(1, least + int(rng.choice([0, 0, 0, 0, 1, -1]))))]
    if all(not isinstance(x, np.ndarray) for x in given):
        given[0] = np.ones(SHAPES[int(rng.integers(len(SHAPES)))])
    chosen = [name for name in names[len(given) :] if rng.random() < 0.2]
    return given, {name: ODD[int(rng.integers(len(ODD)))] for name in chosen if name != "out"}


def survived(function: Callable[..., Any], given: list[Any], options: dict[str, Any]) -> bool:
    """Test whether NumPy's process survives a call: `diff` loops n times, and comparisons read a mask that is none."""
    if function is np.diff:
        numbers = [x for x in (*given, *options.values()) if isinstance(x, int | np.integer)]
        return all(x < ENDLESS for x in numbers)
    masked = isinstance(options.get("where", True), bool)
    return masked or getattr(function, "__name__", "") not in ufunc_rules.COMPARISONS


def options(function: Callable[..., Any]) -> list[str]:
    """The names of the parameters of a function."""
    if isinstance(function, np.ufunc):
        return ["axis", "dtype", "casting", "where", "order"]
    try:
        return [p.name for p in inspect.signature(function).parameters.values() if p.kind in (1, 3)]
    except ValueError:
        return []


def called(function: Callable[..., Any], given: list[Any], options: dict[str, Any]) -> tuple[Any, BaseException | None]:
    """The result of a call, or the error that it raises."""
    try:
        return function(*[np.array(x) if isinstance(x, np.ndarray) else x for x in given], **options), None
    except Exception as error:
        return None, error


def traced(function: Callable[..., Any], given: list[Any], options: dict[str, Any]) -> tuple[Any, BaseException | None]:
    """The same where the arrays are traced."""
    places = [i for i, x in enumerate(given) if isinstance(x, np.ndarray)]

    def call(*arrays: Any) -> Any:
        whole = list(given)
        for i, x in zip(places, arrays, strict=True):
            whole[i] = x
        return function(*whole, **options)

    try:
        return ws.trace(call)(*[given[i] for i in places]), None
    except Exception as error:
        return None, error


def with_values(function: Callable[..., Any], given: list[Any], options: dict[str, Any]) -> tuple[Any, Any]:
    """The same where the arrays are traced and their values are known, so that errors that depend on them come."""

    def call() -> Any:
        with scope("audit") as work:
            entered = [enter(np.array(x)) if isinstance(x, np.ndarray) else x for x in given]
            return work.leave(function(*entered, **options))

    return called(call, [], {})


def problem(expected: BaseException | None, value: Any, graph: Any, error: BaseException | None) -> str:
    """The fault in how a call ended, beside how NumPy's did."""
    if error is not None:
        theirs = expected is not None and isinstance(error, (*NUMPYS, type(expected)))
        documented = isinstance(error, WholestepError) or theirs
        return "" if documented else f"{type(error).__name__}: {error}"[:200]
    if expected is not None:
        return ""
    found = [(t.shape, t.dtype) for t in graph.out_types]
    known = [(x.shape, x.dtype) for x in map(np.asarray, tree.leaves(value))]
    return "" if found == known else f"gives {found}, NumPy {known}"[:200]


def audit(count: int, seed: int) -> dict[str, Any]:
    """So many calls; the record of it."""
    seen, rng, functions = Seen(), np.random.default_rng(seed), callables()
    names = list(functions)
    for i in range(count):
        name = names[i % len(names)]
        given, more = arguments(functions[name], rng)
        while not survived(functions[name], given, more):
            given, more = arguments(functions[name], rng)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            value, expected = called(functions[name], given, more)
            graph, error = traced(functions[name], given, more)
            late = with_values(functions[name], given, more)[1] if expected and not error else None
        both = ("both refuse" if expected else "NumPy computes, this refuses") if error else "both compute"
        if expected and not error:
            both = "both refuse, this when the program runs" if late else "NumPy refuses, this computes"
        seen.count("calls: " + both)
        wrong = problem(expected, value, graph, error)
        shown = ", ".join([f"{x.dtype}{list(x.shape)}" if isinstance(x, np.ndarray) else repr(x)[:30] for x in given])
        seen.count("calls that end otherwise for a known reason", int(bool(wrong) and name in OTHERWISE))
        seen.right(not wrong or name in OTHERWISE, f"{name}({shown}, {more}): {wrong}")
    taken = seen.checks["calls: NumPy refuses, this computes"]
    seen.right(taken <= 1 + count * MOST_TAKEN, f"{taken} of {count} calls that NumPy refuses are computed")
    checks = {"calls": count, "functions": len(functions), **dict(sorted(seen.checks.items()))}
    return record("refusals", CLAIM, checks, seen.failures, seed=seed)


AUDIT = Audit(
    "refusals",
    audit,
    5000,
    "call every covered function of NumPy on operands that make no sense",
    """\
Every covered function and ufunc is called on arrays of random shapes and dtypes, empty ones among them, with
numbers, strings and containers where arrays, axes, shapes and dtypes should be. The call is traced. It must raise
one of the library's errors, or NumPy's result, if it has one, must have the shapes and dtypes that the traced one
has. What NumPy refuses and tracing accepts runs again with its values, on which errors may depend. What is computed
then too is counted, and must be rarer than one call in 300.""",
)
