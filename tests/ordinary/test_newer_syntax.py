"""Functions in syntax that Python 3.12 brought, as text that earlier versions never parse: values, slopes, lines."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep.errors import ConversionError

pytestmark = pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters are of Python 3.12")

TEXT = '''
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, override

import numpy as np

type Pair[T] = tuple[T, T]


def generic[T](x: T) -> T:
    def inner[S: float, *Ts](y: S, *rest: *Ts) -> Pair[S]:
        """
          A text that newer versions indent in another way.
        """
        type Local = list[S]
        out: Local = [math.sin(y), *rest]
        return np.array(out)

    z = np.zeros(3)
    z[1:] = inner(x[0], x[1])
    return np.sum(z * z)


class Base[T]:
    def __init__(self, w: T) -> None:
        self.w = np.array([w[0], 2 * w[1]])

    def applied[S](self, x: S) -> S:
        return np.r_[x, 0.0]

    @functools.cached_property
    def cosines(self) -> T:
        return np.array([math.cos(v) for v in self.w])

    @classmethod
    def made(cls, w: T) -> Self:
        return cls(w)


class Derived(Base[np.ndarray]):
    @override
    def applied[S](self, x: S) -> S:
        return super().applied(x) * np.mean([v for v in self.w])


def classes(x):
    d = Derived.made(x)
    return np.sum(d.applied(x)) + np.sum(d.cosines)


def local_classes(x):
    class Box[T]:
        table = np.zeros(2)
        table[0] = math.exp(x[0])
        doubled = [2 * v for v in [x[1], table[0]]]

        def total(self, y: T) -> T:
            return __class__.table[0] + np.array([y, *self.doubled]).sum()

    return Box[float]().total(x[1])


@dataclass(slots=True, kw_only=True)
class Slotted[T]:
    w: T
    sines: object = None

    def __post_init__(self):
        self.sines = np.array([math.sin(v) for v in self.w])


def slotted(x):
    return np.sum(Slotted(w=x).sines)


def nested_quotes(x):
    at = {"a": x[0], "b": x[1]}
    text = f"{f"{"a"}"}{
        len(at)  # a remark
    }"
    z = np.zeros(len(text))
    z[0] = at[f"{text[0]}"] * at["b"]
    return np.sum(z) * math.exp(at["a"])


def inlined_comprehensions(x):
    n = len(x)
    rows = [[math.sin(v) * w * n for v in x] for w in x]
    later = [lambda y: np.array([y, x[i]]) for i in range(n)]
    means = {i: np.mean([v, 1.0]) for i, v in enumerate(x) if (last := i) < n}
    return np.sum(np.array(rows)) + sum(np.sum(f(x[0])) for f in later) + sum(means.values()) + last * x[0]


def wrapped[**P, R](f: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(f)
    def around(*args: P.args, **kw: P.kwargs) -> R:
        z = np.zeros(1)
        z[0] = f(*args, **kw)
        return z[0]

    return around


@wrapped
def decorated[T](x: T) -> T:
    return np.array([x[0], math.log(x[1])]).sum()


def groups(x):
    z = np.zeros(2)
    try:
        raise ExceptionGroup("both", [ValueError(1), TypeError(2)])
    except* ValueError as those:
        z[0] = math.sin(x[0]) * len(those.exceptions)
    except* TypeError:
        z[1] = x[1]
    return np.sum(z * z)


def refused[T](x: T) -> T:
    text = f"{
        float(len(x))
    }"
    return [v.item() for v in x]


FUNCTIONS = [
    generic, classes, local_classes, slotted, nested_quotes, inlined_comprehensions, decorated, groups
]
'''
NAMES = TEXT[TEXT.index("FUNCTIONS = [") :].split("\n")[1].replace(",", "").split()
POINT = np.array([0.3, 0.7])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The text as a module of the user's."""
    path = Path(tmp_path_factory.mktemp("newer")) / "newer.py"
    path.write_text(TEXT, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("newer", path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules["newer"] = made
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize("name", NAMES)
def test_newer_syntax_is_rewritten(written: Any, name: str) -> None:
    f = getattr(written, name)
    want = f(POINT)
    slopes = [(f(POINT + h) - f(POINT - h)) / 2e-6 for h in 1e-6 * np.eye(2)]
    value, gradient = ws.value_and_grad(f)(POINT)
    np.testing.assert_allclose(value, want, rtol=1e-12)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-5)
    np.testing.assert_allclose(ws.jit(f, device="reference")(POINT), want, rtol=1e-12)
    np.testing.assert_allclose(ws.vmap(f)(np.stack([POINT, POINT])), [want, want], rtol=1e-12)


def test_an_error_in_newer_syntax_has_the_users_line(written: Any) -> None:
    line = "    return [v.item() for v in x]"
    number = TEXT.split("\n").index(line) + 1
    with pytest.raises(ConversionError, match=rf"newer\.py:{number}:  {line.strip()[:6]}"):
        ws.grad(written.refused)(POINT)


def test_a_tracer_sees_the_lines_of_newer_syntax(written: Any) -> None:
    def lines(run: Any) -> list[int]:
        seen: list[int] = []

        def trace(frame: Any, event: str, argument: Any) -> Any:
            if event == "line" and frame.f_code.co_filename == written.__file__:
                seen.append(frame.f_lineno)
            return trace

        tracing = sys.gettrace()
        sys.settrace(trace)
        try:
            run()
        finally:
            sys.settrace(tracing)
        return seen

    for name in NAMES:
        f = getattr(written, name)
        ws.grad(f)(POINT)
        assert lines(lambda f=f: ws.grad(f)(POINT)) == lines(lambda f=f: f(POINT)), name
