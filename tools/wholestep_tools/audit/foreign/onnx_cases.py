"""The node cases that the onnx package generates: each is loaded, run, run compiled, and compared with its numbers."""

from __future__ import annotations

import hashlib
import importlib
import pkgutil
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import wholestep as ws
from wholestep.dtypes import is_float, limits
from wholestep.errors import WholestepError

RELATIVE, ABSOLUTE = 1e-3, 1e-7
"""The tolerances that the onnx package gives to its own backends, unless a case states wider ones."""
HALF = 4
"""Numbers of 16 bits may be off by so many of their units."""


class Outcome(NamedTuple):
    """The fate of a case: "passed", "wrong" or "refused", with the operator, and the reason in words."""

    name: str
    operator: str
    fate: str
    reason: str
    compiled: str


SLOW = frozenset(("averagepool", "lppool", "maxpool"))
"""Modules of the onnx package that take seconds each to compute their expected results."""


def cases(without: frozenset[str] = frozenset()) -> list[Any]:
    """All node cases of the installed onnx package in the order of their names, without those of some modules."""
    from onnx.backend.test.case import node

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for module in pkgutil.iter_modules(node.__path__):
            if module.name not in without:
                importlib.import_module(f"{node.__name__}.{module.name}")
        return sorted((c for c in node._NodeTestCases if c.model is not None), key=lambda c: c.name)


def held_out(name: str) -> bool:
    """True for the half of the cases that handlers are not written by: those whose name has an odd SHA-256."""
    return bool(hashlib.sha256(name.encode()).digest()[-1] & 1)


def operator_of(case: Any) -> str:
    """The operator that a case is about; of one that is expanded into others, that it is."""
    kind = case.model.graph.node[0].op_type
    return f"{kind} (expanded)" if "_expanded" in case.name else kind


def outcomes(chosen: Callable[[str], bool] = lambda name: True, compiled: bool = True) -> Iterator[Outcome]:
    """The outcome of each chosen case."""
    for case in cases():
        if chosen(case.name):
            yield outcome(case, compiled)


def outcome(case: Any, compiled: bool = True) -> Outcome:
    """The outcome of one case: plain, and with its floating inputs traced by `ws.jit`."""
    kind = operator_of(case)
    try:
        f, params = ws.from_onnx(case.model.SerializeToString())
        reason, jitted = "", ""
        for given, expected in case.data_sets:
            xs, wanted = [from_case(x) for x in given], [from_case(x) for x in expected]
            if len(xs) != len(f.inputs):
                xs = xs[: len(f.inputs)]
            reason = reason or difference(case, as_tuple(f(params, *xs)), wanted)
            if compiled and not reason:
                jitted = jitted or compiled_difference(case, f, params, xs, wanted)
    except WholestepError as error:
        return Outcome(case.name, kind, "refused", short(error), "")
    return Outcome(case.name, kind, "wrong" if reason else "passed", reason, jitted)


def from_case(x: Any) -> Any:
    """A value of a case as arrays; sequences are lists."""
    from onnx import TensorProto, numpy_helper

    if isinstance(x, TensorProto):
        return numpy_helper.to_array(x)
    return x if isinstance(x, list | tuple) or x is None else np.asarray(x)


def as_arrays(x: Any) -> Any:
    """Sequences as tuples of arrays."""
    return tuple([as_arrays(item) for item in x]) if isinstance(x, list | tuple) else x


def as_tuple(made: Any) -> tuple[Any, ...]:
    return made if type(made) is tuple else (made,)


def difference(case: Any, made: tuple[Any, ...], wanted: list[Any], scaled: float = 0.0) -> str:
    """The first fault of the outputs, in words; nothing where they are right.

    `scaled` is a share of the largest number that any number may be off by.
    """
    if len(made) < len(wanted):
        return f"{len(made)} outputs for {len(wanted)}"
    for x, y in zip(made, wanted, strict=False):
        if isinstance(y, list | tuple):
            said = difference(case, tuple(x), list(y)) if len(x) == len(y) else "a sequence of another length"
            if said:
                return said
            continue
        if y is None:
            if x is not None:
                return "a value for none"
            continue
        a, b = np.asarray(x), np.asarray(y)
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"{a.dtype}{list(a.shape)} for {b.dtype}{list(b.shape)}"
        rtol, atol = max(case.rtol, RELATIVE), max(case.atol, ABSOLUTE)
        if is_float(b.dtype) and b.dtype.itemsize == 2:
            rtol = max(rtol, HALF * float(limits(b.dtype).eps))
            a, b = a.astype(np.float32), b.astype(np.float32)
        if scaled and b.size and b.dtype.kind == "f":
            atol = max(atol, scaled * float(np.abs(b[np.isfinite(b)]).max(initial=0)))
        if not np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True):
            return "other numbers"
    return ""


def compiled_difference(case: Any, f: Any, params: Any, xs: list[Any], wanted: list[Any]) -> str:
    """The difference that `ws.jit` makes with floating inputs traced, others known; in words, or nothing."""
    traced = [i for i, x in enumerate(xs) if isinstance(x, np.ndarray) and x.dtype.kind in "fcV"]
    if not traced or any(not isinstance(x, np.ndarray) for x in (*xs, *wanted)):
        return "no floating input"

    def g(*given: Any) -> Any:
        every = list(xs)
        for i, x in zip(traced, given, strict=True):
            every[i] = x
        return as_tuple(f(params, *every))

    try:
        made = ws.jit(g)(*[xs[i] for i in traced])
    except WholestepError as error:
        return short(error)
    return difference(case, tuple([np.asarray(x) for x in made]), wanted, scaled=1e-6)


def short(error: BaseException) -> str:
    """The class of an error, and its message without the node's name."""
    text = str(error).split("\n")[0]
    return f"{type(error).__name__}: {text}"[:160]
