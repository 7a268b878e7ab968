"""`wholestep audit reports`: wrong answers of other libraries, as their users reported them, are right ones here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import wholestep as ws
from wholestep import tree
from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.record import record

CLAIM = "Programs that other libraries were reported to compute wrongly without an error are computed rightly"


class Report(NamedTuple):
    """A public report, what went wrong in it, a program of its kind, where it is taken, and the right answer."""

    reference: str
    wrong: str
    program: Callable[..., Any]
    at: tuple[Any, ...]
    right: Any


def read_before_write(x: Any) -> Any:
    """A logarithm of an array that is overwritten afterwards."""
    y = x.copy()
    z = np.log(y)
    np.log(y, out=y)
    return z


def shifted_onto_itself(x: Any) -> Any:
    """An indexed write, then a sum with what lies at other positions."""
    y = x.copy()
    y[np.arange(4)] = y * 2.0
    y += y[::-1]
    return y


def overwritten_later(x: Any) -> Any:
    """A result of a view whose base is written afterwards."""
    base = x.copy()
    view = base.reshape(-1)
    y = view * 2.0
    y -= -4.0
    base[:, 1:] = 2.0
    return y


def two_views(x: Any) -> Any:
    """Two results of two views of one array."""
    z = x + 1
    a = z.reshape(2, 4)
    out = a + 1
    return out, z.reshape(2, 4) * 1 + 0


def decayed_mean(x: Any) -> Any:
    """A moving mean that is updated in place, and read twice."""
    mean, p = x * 0.0, x * 0.0 + 1.0
    mean += 0.05 * (x - mean)
    p -= 0.01 * mean
    return mean, p, (x * 2.0).astype(np.float32)


def squared_norm(x: Any) -> Any:
    """The square of a norm, which is smooth where the norm is not."""
    return np.linalg.norm(x) ** 2


def nested_slopes(x: Any) -> Any:
    """A derivative within a derivative, of two variables that must not be confused."""
    return x * ws.grad(lambda y: x + y)(1.0 * x)


A = np.arange(8.0).reshape(2, 4) + 1.0
REPORTS = (
    Report(
        "pytorch #94777",
        "an in-place operation changes what was computed before it",
        read_before_write,
        (np.array([3.0, 5.0]),),
        np.log([3.0, 5.0]),
    ),
    Report(
        "pytorch #198270",
        "an indexed write and a reversed read of it are fused",
        shifted_onto_itself,
        (np.arange(4.0),),
        np.full(4, 6.0),
    ),
    Report(
        "pytorch #198101",
        "what a view read is computed after a later write to its base",
        overwritten_later,
        (A,),
        A.reshape(-1) * 2 + 4,
    ),
    Report(
        "pytorch #122457",
        "a buffer with several views is reused too early",
        two_views,
        (np.zeros(8),),
        (np.full((2, 4), 2.0), np.ones((2, 4))),
    ),
    Report(
        "pytorch #183575",
        "the memory of a mean that is still read is given to another value",
        decayed_mean,
        (np.full(3, 2.0),),
        (np.full(3, 0.1), np.full(3, 0.999), np.full(3, 4.0, np.float32)),
    ),
    Report(
        "denizyuret/AutoGrad.jl #75",
        "the derivatives of an inner and an outer function are confused",
        ws.grad(nested_slopes),
        (5.0,),
        1.0,
    ),
    Report(
        "HIPS/autograd #586",
        "the gradient of a squared norm is nan at zero",
        ws.grad(squared_norm),
        (np.zeros(3),),
        np.zeros(3),
    ),
)


def problem(report: Report) -> str:
    """The fault in an answer, traced with values and compiled."""
    for how, program in (("as it is", report.program), ("compiled", ws.jit(report.program))):
        found = tree.leaves(program(*report.at))
        for x, y in zip(found, tree.leaves(report.right), strict=True):
            if np.shape(x) != np.shape(y) or not np.allclose(x, y, rtol=1e-6, atol=1e-12):
                return f"{how}: {x} is not {y}"
    return ""


def audit(count: int, seed: int) -> dict[str, Any]:
    """The first so many reports; the record of it."""
    seen = Seen()
    for report in REPORTS[:count]:
        wrong = problem(report)
        seen.count("reports")
        seen.right(not wrong, f"{report.reference}, {report.wrong}: {wrong}")
    return record("reports", CLAIM, dict(seen.checks), seen.failures, seed=seed)


AUDIT = Audit(
    "reports",
    audit,
    60,
    "compute what other libraries were reported to compute wrongly",
    """\
Each program is one of the kind that a public report of another library describes, written with NumPy: arrays that
are written while views of them are read, buffers that are used again, derivatives in each other. It is run with
values attached and compiled, and compared with the right answer, which is written out.""",
)
