"""The IPython extension in a session of its own: pipelines, weights by name, views, and taking it all back."""

import importlib.util
import re
from types import SimpleNamespace

import numpy as np
import pytest

import wholestep as ws
from wholestep.errors import ParameterError, UnsupportedError
from wholestep.nn.ambient import params
from wholestep.nn.module import Module
from wholestep.notebook import extension
from wholestep.notebook.names import NamedWeights
from wholestep.report.graph_drawing import MOST_BOXES, drawing, html_drawing

CELL = """
import numpy as np
from wholestep import nn

rng = np.random.default_rng(42)
X, Y = rng.normal(size=(30, 2)), np.eye(3)[rng.integers(0, 3, 30)]

def cross_entropy(z, y):
    z = z - z.max(axis=1, keepdims=True)
    return np.mean(np.log(np.exp(z).sum(axis=1)) - np.sum(z * y, axis=1))

with params{
    w1 = 0.3 * rng.standard_normal((2, 16)); b1 = frozen(np.zeros(16))
    w2 = 0.3 * rng.standard_normal((16, 3)); b2 = np.zeros(3)
    gain = np.ones(3)
} as weights:
    logits = $ |> $ @ w1 + b1 |> np.tanh |> $ @ w2 + b2 |> nn.layer_norm($, gain, b2)
    objective = |> X |> logits |> cross_entropy($, Y)
    first = objective()
    for _ in range(20):
        last, grads = weights.value_and_grad(objective)
        weights.step(grads, 0.5)
"""


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    pytest.importorskip("pipescript", reason="pipelines come from pipescript; not installed")
    shells = pytest.importorskip("IPython.core.interactiveshell", reason="a session is IPython's; not installed")
    patch = pytest.MonkeyPatch()
    patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
    made = shells.InteractiveShell.instance(user_ns={})
    made.history_manager.enabled = False
    extension.load_ipython_extension(made)
    yield made
    extension.unload_ipython_extension(made)
    assert "params" not in made.user_ns
    shells.InteractiveShell.clear_instance()
    patch.undo()


def run(shell, cell):
    result = shell.run_cell(cell, silent=True)
    result.raise_error()
    return result.result


@pytest.mark.filterwarnings("ignore")
def test_a_model_of_pipelines_trains(shell):
    run(shell, CELL)
    held = shell.user_ns
    assert held["last"] < 0.9 * held["first"]
    names = ("w1", "b1", "w2", "b2", "gain")
    assert not set(names) & set(held)
    w1, w2, b2, gain = [getattr(held["weights"], name) for name in ("w1", "w2", "b2", "gain")]

    def loss(w1, w2, b2, gain):
        z = ws.nn.layer_norm(np.tanh(held["X"] @ w1) @ w2 + b2, gain, b2)
        return held["cross_entropy"](z, held["Y"])

    run(shell, "with weights:\n    found = weights.grad(objective)")
    for name, wanted in zip(
        ("w1", "w2", "b2", "gain"), ws.grad(loss, argnums=(0, 1, 2, 3))(w1, w2, b2, gain), strict=True
    ):
        assert np.allclose(getattr(held["found"], name), wanted, atol=1e-12)


@pytest.mark.filterwarnings("ignore")
def test_a_block_hides_no_name_and_ends(shell):
    with pytest.raises(ParameterError, match="taken would be hidden"):
        run(shell, "taken = 3\nwith params{ taken = 1.0 } as weights:\n    pass")
    assert shell.user_ns["taken"] == 3
    with pytest.raises(ZeroDivisionError):
        run(shell, "with params{ passing = 1.0 } as weights:\n    1 / 0")
    assert "passing" not in shell.user_ns


def test_views_of_programs_steps_and_models(shell):
    shown = shell.display_formatter.formatters["text/html"]
    graph = ws.trace(lambda x: np.sin(x) < 1.0)(1.0)
    assert "sin(x)" in shown(graph) and shown(graph).count("<rect ") == 3
    model = Module()
    model.w = np.ones(3)
    step = ws.compile(lambda m, x: np.sum(m.w * x), model, optimizer=ws.optim.sgd(0.1), batch=np.ones(3))
    assert "params      1 array" in shown(step) and shown(step).count("<summary>program<") == 2
    assert "<svg" in shown(step) and "<svg" in shown(step.plan)
    assert "<td>w</td>" in shown(step.model)
    assert "<td>w</td>" in shown(ws.nn.summary(model))


def test_a_drawing_has_a_box_for_every_operation_and_a_line_for_every_operand():
    def recurrent(w, xs):
        def step(h, x):
            h = np.tanh(w @ h + x)
            return h, np.sum(h)

        return np.sum(ws.scan(step, np.zeros(3), xs)[1])

    graph = ws.trace(recurrent)(np.ones((3, 3)), np.ones((5, 3)))
    drawn = drawing(graph)
    assert drawn.count("<rect ") == len(graph.inputs) + 2 and drawn.count("<path ") == 3  # scan(w, xs), sum(scan)
    assert ">scan</text>" in drawn and "f64[3], f64[5]" in drawn and "test_extension.py" in drawn
    places = [float(y) for y in re.findall(r'<rect x="[^"]*" y="([^"]*)"', drawn)]
    assert places == sorted(places) and len(set(places)) == 3
    assert "step, inside" in html_drawing(graph) and html_drawing(graph).count("<svg ") == 2
    long = ws.trace(lambda x: [x := np.sin(x) for _ in range(MOST_BOXES)][-1])(1.0)
    assert "too many to be drawn" in drawing(long)


def test_bare_names_follow_their_weights():
    space = {}
    held = NamedWeights(w=np.array([1.0, 2.0]), inner={"b": 3.0}).bound_in(space)
    with held:
        w = space["w"]
        assert (2 * w + w[0]).tolist() == [3.0, 5.0]
        assert (w.shape, len(w), w.sum(), list(w), np.asarray(w).tolist()) == ((2,), 2, 3.0, [1.0, 2.0], [1.0, 2.0])
        assert held.grad(lambda: ws.numpy.sum(ws.numpy.stack([w, w * 2])[0] * space["inner"].b)).w.tolist() == [
            3.0,
            3.0,
        ]
        with pytest.raises(TypeError, match="cannot become a plain value"):
            held.grad(lambda: np.sum(np.asarray(w)))
        with pytest.raises(TypeError, match="cannot become a plain value"):
            held.grad(lambda: float(w[0]) * w[1])
        w[0] = 5.0
        assert held.w.tolist() == [5.0, 2.0]
        assert repr(w).startswith("w = array(")
    assert space == {}
    with pytest.raises(UnsupportedError, match="rows is a list"):
        NamedWeights(rows=[1.0]).bound_in(space).__enter__()
    assert space == {}


class Views(dict):
    def for_type(self, cls, view):
        self[cls] = view


def test_a_session_without_pipescript_says_so(monkeypatch, capsys):
    views = Views()
    shell = SimpleNamespace(user_ns={}, display_formatter=SimpleNamespace(formatters={"text/html": views}))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    extension.load_ipython_extension(shell)
    assert len(views) == 2
    assert "pipescript is not installed" in capsys.readouterr().out
    assert shell.user_ns["params"] is params
    extension.unload_ipython_extension(shell)
    assert shell.user_ns == views == {}
