"""Properties, operators and functions that functools wraps are followed, and nothing outside of the call changes."""

import sys
import threading
import traceback
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.ordinary import members
from tests.ordinary.members import FUNCTIONS, OUTSIDE, Layered, Vector

import wholestep as ws
from wholestep.frontend.source.wrappers import chosen_method_call

CHOOSE = (members.compares,)
"""Functions with a condition on a traced value."""
CLASSES = [members.Vector, members.Shifted, members.Layered, members.Cached]


def bits() -> Any:
    """The identities of the attributes of the module and its classes; code, cache statistics, and objects."""
    held = [{name: id(value) for name, value in vars(thing).items()} for thing in (members, *CLASSES)]
    codes = [
        (id(f.__code__), f.__code__.co_code, f.__closure__) for f in vars(Vector).values() if hasattr(f, "__code__")
    ]
    caches = [f.cache_info() for f in (members.cached, members.power, members.Cached.at)]
    return held, codes, caches, dict(vars(OUTSIDE)), list(members.described.registry)


@pytest.fixture(autouse=True)
def warm() -> None:
    for f in FUNCTIONS:
        f(1.5)
    vars(OUTSIDE).pop("total", None)


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_members_are_followed_and_stay_as_they_were(f: Any) -> None:
    want = f(1.3)
    slope = (f(1.3 + 1e-6) - f(1.3 - 1e-6)) / 2e-6
    vars(OUTSIDE).pop("total", None)
    before = bits()
    value, gradient = ws.value_and_grad(f)(1.3)
    assert type(value) is np.float64
    np.testing.assert_allclose(value, want, rtol=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=1e-5)
    if f not in CHOOSE:
        np.testing.assert_allclose(ws.vmap(f)(np.array([1.3, 1.3])), [want, want], rtol=1e-12)
        np.testing.assert_allclose(ws.jit(f, device="reference")(1.3), want, rtol=1e-12)
    after = bits()
    assert after[:2] == before[:2]
    assert after[3:] == before[3:]
    if f is not members.calls_a_cached_function:  # its one call without a traced value goes to the cache
        assert after[2] == before[2]


def test_a_cache_computes_a_traced_value_once_in_a_trace() -> None:
    for f in (members.reads_a_cached_property_twice, members.calls_a_cached_function):
        members.COUNTED.clear()
        ws.grad(f)(1.7)
        assert len(members.COUNTED) == 1
        ws.grad(f)(1.7)
        assert len(members.COUNTED) == 2
    assert ws.trace(members.remembers)(1.0).nodes[20:]  # twenty levels, each of them once
    assert len(ws.trace(members.remembers)(1.0).nodes) < 500


def test_an_array_is_no_key_of_a_cache() -> None:
    for call in (members.caches_an_array, ws.grad(members.caches_an_array)):
        with pytest.raises(TypeError, match=r"unhashable type: 'numpy.ndarray'"):
            call(1.0)


def test_a_loop_keeps_what_it_computes_to_itself() -> None:
    def f(x: Any) -> Any:
        v = Vector(x, 1.0)
        inside = ws.scan(lambda carry, row: (carry + v.total * row, None), 0.0, np.ones(3))[0]
        return inside + v.total

    assert ws.grad(f)(2.0) == 4.0
    assert ws.jit(ws.grad(f))(2.0) == 4.0


def test_a_property_of_a_module() -> None:
    model, x = Layered(), np.array([1.0, 3.0])
    gradient = ws.grad(members.of_a_module)(model, x)
    assert gradient.scale.tolist() == [2.0, 3.0]
    step = ws.compile(members.of_a_module, model, optimizer=ws.optim.sgd(0.1), batch=x)
    assert float(step(x).loss) == members.of_a_module(model, x)


def test_errors_are_those_of_python_and_leave_nothing_changed() -> None:
    before = bits()
    for f in (members.asks_for_what_is_missing, ws.grad(members.asks_for_what_is_missing)):
        with pytest.raises(AttributeError, match=r"missing|nowhere"):
            f(1.0)
    for f in (lambda x: Vector(x) @ 3.0, lambda x: Vector(x) - Vector(x), lambda x: Vector(x) * Vector(x)):
        with pytest.raises((TypeError, AttributeError)) as plain:
            f(1.0)
        with pytest.raises(plain.type) as traced:
            ws.grad(f)(1.0)
        assert str(plain.value) in str(traced.value)
    assert bits() == before


def test_a_traceback_has_the_frames_of_members() -> None:
    def f(x: Any) -> Any:
        return Vector(x, 1.0) + 3.0

    try:
        ws.grad(f)(1.0)
    except AttributeError as error:
        names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        assert names == ["test_a_traceback_has_the_frames_of_members", "f", "__add__"]


def test_a_tracer_sees_the_lines_of_members() -> None:
    seen: list[str] = []

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != members.__file__:
            return None
        if event == "line":
            seen.append(frame.f_code.co_qualname)
        return trace

    before, tracing = bits(), sys.gettrace()
    sys.settrace(trace)
    try:
        ws.grad(members.reads_a_property)(1.0)
        ws.grad(members.multiplies)(1.0)
    finally:
        sys.settrace(tracing)
    assert {"Vector.norm", "Vector.__matmul__", "multiplies"} <= set(seen)
    assert bits() == before


def test_threads_trace_members_at_once() -> None:
    before, found = bits(), []

    def work(k: int) -> None:
        found.extend(float(ws.grad(members.multiplies)(float(k))) == 2.0 * k for _ in range(5))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 20
    assert bits() == before


def test_a_chosen_method_may_be_an_object() -> None:
    """From Python 3.14 on, an attribute made by `functools.singledispatchmethod` is an object with these attributes."""
    dispatcher = vars(members.Cached)["size"].dispatcher
    given = SimpleNamespace(_dispatch=dispatcher.dispatch, _obj=members.Cached(2.0), _cls=members.Cached)
    assert chosen_method_call(lambda f: f, given, 3.0) == 6.0 and chosen_method_call(lambda f: f, given, "abc") == 3
