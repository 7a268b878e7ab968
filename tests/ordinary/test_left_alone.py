"""Rewriting leaves its surroundings as they were: functions, NumPy, debuggers, tracers, threads, outside arrays."""

import bdb
import copy
import functools
import gc
import inspect
import math
import pickle
import sys
import threading
import traceback
import weakref
from typing import Any

import numpy as np
import pytest
from tests.ordinary import cases

import wholestep as ws
from wholestep import nn
from wholestep.frontend.source.entrance import ordinary
from wholestep.frontend.source.fresh import FreshArray
from wholestep.frontend.source.rewriting import MARK

NAMES = {module.__name__: set(vars(module)) - {"total"} for module in (np, math, cases)}
"""The names in modules at first: NumPy loads some submodules on demand."""
LINE = inspect.getsourcelines(cases.simple)[1] + 2
"""The line of `cases.simple` that stores a traced value."""


def bits(thing: Any) -> Any:
    """The identities of all parts of a function, or of all names of a module."""
    if inspect.isfunction(thing):
        parts = (thing.__code__, thing.__defaults__, thing.__kwdefaults__, thing.__closure__, thing.__globals__)
        return [id(part) for part in parts], dict(thing.__dict__), thing.__code__.co_code
    return {name: id(value) for name, value in vars(thing).items() if name in NAMES[thing.__name__]}


def test_nothing_outside_of_the_call_changes() -> None:
    watched = [np, math, cases, cases.simple, cases.Derived.value, cases.decorated]
    modules = dict(sys.modules)
    before = [bits(thing) for thing in watched]
    ws.grad(cases.simple)(1.0)
    with pytest.raises(KeyError):
        ws.grad(cases.failing)(1.0)
    ws.jit(ws.grad(cases.inherited))(1.0)
    assert [bits(thing) for thing in watched] == before
    assert not [name for name, module in modules.items() if sys.modules.get(name) is not module]
    assert type(cases.simple(1.0)) is np.float64


@pytest.mark.parametrize(
    ("f", "slope"),
    [
        (cases.simple, 2.0),
        (cases.decorated, 3.0),
        (cases.with_a_cached_table, 1.0),
        (cases.inherited, 12.0),
        (cases.two_lambdas()[0], 4.0),
        (cases.two_lambdas()[1], 12.0),
        (cases.first, 2.0),
        (cases.second, 3.0),
        (cases.writes_a_global, 2.0),
        (cases.many_names, 3.0),
        (cases.type_of_a_table, 3.0),
        (cases.inner_functions, 4.0),
        (cases.within_a_context, 3.0),
        (cases.made_after, 3.0),
    ],
    ids=lambda item: getattr(item, "__qualname__", None),
)
def test_the_language_keeps_its_meaning(f: Any, slope: float) -> None:
    value, gradient = ws.value_and_grad(f)(2.0)
    assert value == f(2.0)
    assert gradient == slope
    assert ws.jit(f)(2.0) == f(2.0)


def test_a_bound_method_and_a_partial_application() -> None:
    model = cases.Base(3.0)
    assert ws.grad(model.value)(2.0) == 3.0
    assert ws.grad(functools.partial(cases.Base.value, model))(2.0) == 3.0
    assert ws.grad(cases.Caller(2.0))(2.0) == 2.0


def test_a_traceback_has_the_users_frames_alone() -> None:
    try:
        ws.grad(cases.failing)(1.0)
    except KeyError as error:
        frames = traceback.extract_tb(error.__traceback__)
        assert [f.name for f in frames] == ["test_a_traceback_has_the_users_frames_alone", "failing"]
        assert frames[-1].line == "raise KeyError(z.shape)"


class Stops(bdb.Bdb):
    """A debugger that records each stop, and goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, list[str], str]] = []

    def user_line(self, frame: Any) -> None:
        if self.break_here(frame):
            self.seen.append((frame.f_lineno, sorted(frame.f_locals), frame.f_code.co_qualname))
        self.set_continue()


def test_a_breakpoint_stops_where_it_was_set() -> None:
    debugger = Stops()
    assert debugger.set_break(cases.__file__, LINE) is None
    tracing = sys.gettrace()
    try:
        assert debugger.runcall(ws.grad(cases.simple), 1.0) == 2.0
    finally:
        sys.settrace(tracing)
    assert debugger.seen == [(LINE, ["x", "z"], "simple")]


def test_a_tracer_sees_the_users_lines() -> None:
    seen: list[int] = []

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != cases.__file__:
            return None
        if event == "line":
            seen.append(frame.f_lineno)
        return trace

    tracing = sys.gettrace()
    sys.settrace(trace)
    try:
        ws.grad(cases.simple)(1.0)
    finally:
        sys.settrace(tracing)
    assert seen == [LINE - 1, LINE, LINE + 1]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is of Python 3.12")
def test_a_monitor_sees_the_users_lines() -> None:
    seen: list[int] = []
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    monitoring.use_tool_id(3, "lines")
    try:
        monitoring.register_callback(
            3,
            monitoring.events.LINE,
            lambda code, line: seen.append(line) if code.co_filename == cases.__file__ else None,
        )
        monitoring.set_events(3, monitoring.events.LINE)
        ws.grad(cases.simple)(1.0)
    finally:
        monitoring.set_events(3, 0)
        monitoring.free_tool_id(3)
    assert seen == [LINE - 1, LINE, LINE + 1]


def test_threads_trace_at_once() -> None:
    found: list[Any] = []

    def work(k: int) -> None:
        found.extend(float(ws.grad(cases.inherited)(float(k))) == 6.0 * k for _ in range(5))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 20


def test_arrays_from_outside_are_refused() -> None:
    table = np.array([1.0, 2.0])
    before = cases.TABLE.copy()
    for f in (cases.writes_outside, lambda x: cases.writes_an_argument(x, table)):
        with pytest.raises(TypeError, match=r"TABLE|table"):
            ws.grad(f)(1.0)
    assert np.array_equal(cases.TABLE, before)
    assert np.array_equal(table, [1.0, 2.0])


def test_methods_that_write_are_refused_for_arrays_from_outside() -> None:
    table = np.zeros(2)
    for write in (lambda x: table.fill(x), lambda x: table.put([0], x), lambda x: table.__setitem__(0, x)):
        with pytest.raises(TypeError):
            ws.grad(lambda x, write=write: (write(x), x + table[0])[1])(1.0)


def test_a_function_with_nothing_to_rewrite_has_the_hint_for_its_array() -> None:
    with pytest.raises(TypeError, match=r"TABLE = TABLE\.copy\(\)$"):
        ws.grad(cases.adds_outside)(1.0)


def test_what_leaves_is_plain() -> None:
    out = ws.jit(cases.returns_tables)(2.0)
    assert all(type(x) is np.ndarray for x in (out["plain"], out["traced"], out["both"][0], out["both"][1][0]))
    assert out["traced"].tolist() == [2.0, 0.0]
    value, aux = ws.vjp(lambda x: (x * 2, cases.returns_tables(x)), 2.0, has_aux=True)[::2]
    assert value == 4.0
    assert [type(x) for x in (aux["plain"], aux["traced"])] == [np.ndarray] * 2


def test_numbers_of_math_promote_as_pythons() -> None:
    x = np.ones(2, np.float32)
    for f in (lambda x: x * float(x[0]), lambda x: x * math.exp(x[0]), lambda x: x + math.floor(x[0]) * int(x[1])):
        assert ws.eval_shape(f, x).dtype == f(x).dtype == np.float32


def test_what_is_kept_elsewhere_is_an_array_as_it_was() -> None:
    kept: list[Any] = []
    ws.grad(lambda x: cases.leaks(x, kept))(1.0)
    table, view = kept
    assert isinstance(table, np.ndarray)
    assert table.tolist() == [0.0, 4.0, 0.0]
    view[0] = 5.0
    assert table[1] == 5.0
    for again in (pickle.loads(pickle.dumps(table)), copy.copy(table), copy.deepcopy(table), table + 1, table[1:] * 2):
        assert type(again) is np.ndarray
    assert not ws.jit(lambda x: x * table)(1.0).any() or table.any()


def test_what_was_traced_and_is_kept_elsewhere_refuses() -> None:
    kept: list[Any] = []
    ws.grad(lambda x: cases.leaks_a_traced_one(x, kept))(1.0)
    for use in (lambda z: z + 1, np.sum, lambda z: z.sum(), lambda z: np.asarray(z, float), lambda z: memoryview(z)[1]):
        with pytest.raises((ws.WholestepError, TypeError, NotImplementedError)):
            use(kept[0])
    assert not np.asarray(kept[0]).dtype == np.float64


def test_memory_of_other_views_holds_nothing_stale() -> None:
    found: list[Any] = []

    def f(x: Any) -> Any:
        z = np.zeros(3)
        found.append(z[:].base)
        z[0] = x
        return z.sum()

    assert ws.grad(f)(2.0) == 1.0
    assert np.isnan(found[0]).all()


SWITCHED: list[Any] = [
    lambda f, **options: ws.grad(f, **options)(1.0),
    lambda f, **options: ws.value_and_grad(f, **options)(1.0)[1],
    lambda f, **options: ws.jit(f, **options)(1.0),
    lambda f, **options: ws.vmap(f, **options)(np.array([1.0, 2.0]))[0],
    lambda f, **options: ws.vjp(f, 1.0, **options)[1](1.0)[0],
    lambda f, **options: ws.jvp(f, (1.0,), (1.0,), **options)[1],
    lambda f, **options: ws.linearize(f, 1.0, **options)[1](1.0),
    lambda f, **options: ws.jacrev(f, **options)(1.0),
    lambda f, **options: ws.jacfwd(f, **options)(1.0),
    lambda f, **options: ws.jacobian(f, **options)(1.0),
    lambda f, **options: ws.hessian(f, **options)(1.0) + 2.0,
    lambda f, **options: ws.hvp(f, (1.0,), (1.0,), **options) + 2.0,
    lambda f, **options: ws.elementwise_grad(f, **options)(1.0),
    lambda f, **options: ws.trace_gradients(f, **options)(1.0)[1],
    lambda f, **options: len(ws.trace(f, **options)(1.0).inputs) + 1.0,
    lambda f, **options: (
        1.0
        + ws.compile(lambda p, b: f(p), 1.0, optimizer=ws.optim.sgd(0.5), batch=np.zeros(1), **options)(
            np.zeros(1)
        ).loss
        / 2.0
    ),
    lambda f, **options: ws.jit(lambda x: ws.grad(f)(x), **options)(1.0),  # the inner one is inside of the outer one
]


@pytest.mark.parametrize("use", SWITCHED)
def test_rewriting_is_switched_off(use: Any) -> None:
    assert use(cases.simple) == use(cases.simple, rewrite=True) == 2.0
    with pytest.raises(TypeError, match="rewrite=False"):
        use(cases.simple, rewrite=False)


def test_parts_of_models_are_followed() -> None:
    x = np.array([0.3, 0.4])
    model = nn.Sequential(
        cases.Twisted(2.0), cases.twisted, nn.Lambda(cases.twisted), cases.Twisted(3.0), nn.Flatten(0)
    )
    expected = float(np.sum(model(x) ** 2))
    step = ws.compile(lambda m, b: np.sum(m(b) ** 2), model, optimizer=ws.optim.sgd(0.1), batch=x)
    assert float(step(x).loss) == pytest.approx(expected, rel=1e-12)
    assert ws.grad(lambda x: np.sum(model(x)))(x).shape == (2,)


def test_code_without_text_is_refused_as_before() -> None:
    names: dict[str, Any] = {"np": np}
    exec("def f(x):\n    return np.array([x, x]).sum()", names)
    with pytest.raises(TypeError, match="made by exec"):
        ws.grad(names["f"])(1.0)


def test_changed_text_is_not_taken(tmp_path: Any, monkeypatch: Any) -> None:
    file = tmp_path / "changing.py"
    file.write_text("import numpy as np\ndef f(x):\n    return np.array([x, 2 * x]).sum()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import changing  # type: ignore[import-not-found]  # noqa: PLC0415

    file.write_text("import numpy as np\ndef f(x):\n    return np.array([x, 9 * x]).sum()\n")
    with pytest.raises(TypeError):
        ws.grad(changing.f)(1.0)
    sys.modules.pop("changing")


def test_packages_are_not_rewritten(tmp_path: Any, monkeypatch: Any) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "installed_thing.py").write_text("import numpy as np\ndef f(x):\n    return np.array([x, x]).sum()\n")
    monkeypatch.syspath_prepend(str(folder))
    import installed_thing  # type: ignore[import-not-found]  # noqa: PLC0415

    with pytest.raises(TypeError):
        ws.grad(installed_thing.f)(1.0)
    with pytest.raises(TypeError):
        ws.grad(lambda x: installed_thing.f(x))(1.0)
    sys.modules.pop("installed_thing")


def test_asynchronous_functions_are_untouched() -> None:
    assert ordinary(cases.asynchronous) is cases.asynchronous


def test_rewritten_code_is_dropped_with_the_function() -> None:
    def make() -> Any:
        scale = np.ones(1)
        return lambda x: np.array([x * scale[0]])[0]

    f = make()
    assert ws.grad(f)(2.0) == 1.0
    seen = weakref.ref(f)
    del f
    gc.collect()
    assert seen() is None


def test_programs_are_traced_for_the_users_function() -> None:
    f = ws.jit(cases.inherited)
    f(1.0)
    f(2.0)
    assert f.traces == 1
    assert f.f is cases.inherited
    assert MARK not in repr(ws.trace(cases.simple)(1.0))


def test_constants_keep_their_values_under_jit() -> None:
    def f(x: Any) -> Any:
        counts = np.zeros(2, int)
        counts[1] = 3
        if counts[1] > counts[0]:
            return x * np.array([1.0] * counts[1]).sum()
        return x

    assert ws.jit(f)(2.0) == 6.0


def test_an_array_of_the_outer_trace_is_not_written_inside() -> None:
    def f(x: Any) -> Any:
        z = np.zeros(2)

        def step(carry: Any, v: Any) -> Any:
            z[0] = v
            return carry + z[0], None

        return ws.scan(step, x, np.ones(3))[0]

    with pytest.raises(ws.errors.UnsupportedError, match="outside of the traced function"):
        ws.grad(f)(1.0)


def test_a_fresh_array_has_every_method_of_an_array() -> None:
    def f(x: Any) -> Any:
        z = np.arange(6.0).reshape(2, 3)
        found.append({name: type(getattr(z, name)).__name__ for name in dir(np.ndarray) if not name.startswith("_")})
        found.append([z.T[0, 1], z.max(), z.astype(int).dtype, z.flat[3], z.copy().tolist(), z.dot(np.ones(3))])
        return x * z.sum()

    found: list[Any] = []
    assert ws.grad(f)(1.0) == 15.0
    plain = np.arange(6.0).reshape(2, 3)
    assert set(found[0]) == {name for name in dir(np.ndarray) if not name.startswith("_")}
    assert found[1][:5] == [plain.T[0, 1], 5.0, np.dtype(int), 3.0, plain.tolist()]
    assert issubclass(FreshArray, np.ndarray)
