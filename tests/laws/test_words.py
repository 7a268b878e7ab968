"""Names of any characters put no control sequence into a text for people; and a REPL shows tables as tables."""

import io
import sys
import warnings

import numpy as np
import pytest

import wholestep as ws
from wholestep import errors, nn
from wholestep.train.loop.callbacks import EarlyStopping
from wholestep.train.loop.loggers import ConsoleLogger
from wholestep.words import Words, printable

HOSTILE = "a\x1b[31m\u202e\x07\x9b2J\u2066\ré"


def harmless(text):
    return all(c.isprintable() or c in "\n\t" for c in text)


class Layer(nn.Module):
    def __init__(self):
        self.first = nn.Linear(3, 2, key=0)
        self.more = {HOSTILE: nn.Linear(2, 2, key=1)}

    def __call__(self, x):
        return self.more[HOSTILE](self.first(x))


Layer.__name__ = Layer.__qualname__ = HOSTILE


def loss(params, batch):
    return np.mean(ws.capture(HOSTILE, batch[HOSTILE] @ params[HOSTILE]) ** 2)


loss.__name__ = loss.__qualname__ = HOSTILE


def rows(n=4, width=3):
    return {HOSTILE: np.ones((n, width))}


@pytest.fixture(scope="module")
def step():
    return ws.compile(loss, {HOSTILE: np.ones((3, 2))}, optimizer=ws.optim.adam(1e-2), batch=rows())


def trained(step):
    """The output of a run with every kind of output, and its history."""
    stream = io.StringIO()
    held, sys.stdout = sys.stdout, stream
    try:
        measured = {HOSTILE: lambda p, b: np.sum(b[HOSTILE])}
        options = {"validation": rows(8), "metrics": measured, "logger": ConsoleLogger(stream), "progress": "plain"}
        history = ws.fit(step, ws.Loader(rows(8), 4), epochs=1, **options)
    finally:
        sys.stdout = held
    return stream.getvalue(), history


def tables(step, tmp_path):
    """Objects that are shown as text."""
    yield from (step, step.memory, step.plan, step.cost(), step.profile(rows()), step.graph)
    yield from (step.explain(), step.diagnose({HOSTILE: np.full((4, 3), np.nan)}), step(rows()))
    yield from (Layer(), nn.summary(Layer(), np.ones((1, 3), np.float32)), ws.Loader(rows(8), 4), ws.jit(loss))
    (tmp_path / "t.csv").write_text(f'"{HOSTILE[:8]}",b\n1,2\n', encoding="utf-8")
    yield ws.Loader(tmp_path / "t.csv", 1)


def test_nothing_that_is_shown_is_obeyed_by_a_terminal(step, tmp_path):
    said, history = trained(step)
    assert harmless(said) and "\\x1b" in said and "val_a" in said
    for shown in (*tables(step, tmp_path), history):
        texts = [str(shown), repr(shown), "\n".join(getattr(shown, "reasons", []))]
        texts += [shown._repr_html_()] if hasattr(shown, "_repr_html_") else []
        assert all(map(harmless, texts)), type(shown)
    assert "\\x1b[31m\\u202e" in repr(step) and "é" in repr(step)


MISTAKES = {
    "names": lambda step: step({HOSTILE + "x": np.ones((4, 5))}),
    "shapes": lambda step: step(rows(4, 5)),
    "dtypes": lambda step: step({HOSTILE: np.ones((4, 3), np.float32)}),
    "hyper": lambda step: step.set(**{HOSTILE: 1.0}),
    "metric": lambda step: ws.fit(step, rows(8), callbacks=[EarlyStopping(HOSTILE)], progress=None),
    "table": lambda step: ws.Loader({HOSTILE: np.array(["a"])}, 1),
    "message": lambda step: errors.warn(HOSTILE, errors.LogWarning, hint=HOSTILE),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_no_message_is_obeyed_by_a_terminal(step, mistake):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((errors.WholestepError, errors.WholestepWarning)) as found:
            MISTAKES[mistake](step)
    assert harmless(str(found.value)) and "\\x1b" in str(found.value)


@pytest.mark.parametrize("fields", [[HOSTILE[:8], HOSTILE[:8]], [HOSTILE[:8], "b"]])
def test_no_column_of_a_table_is_obeyed_by_a_terminal(tmp_path, fields):
    (tmp_path / "t.csv").write_text(",".join(fields) + "\nx,1\n", encoding="utf-8")
    with pytest.raises(errors.WholestepError) as found:
        ws.Loader(tmp_path / "t.csv", 1)
    assert harmless(str(found.value)) and "\\x1b" in str(found.value)


def test_a_repl_shows_tables_as_they_read(step):
    history = trained(step)[1]
    for shown in (step.memory, step.cost(), step.profile(rows()), nn.summary(Layer()), step.explain()):
        assert repr(shown) == str(shown) and "\n" in repr(shown)
    assert repr(history).splitlines()[0] == str(history).splitlines()[0]
    assert len(repr(step.plan).splitlines()) == 1 and "launches" in repr(step.plan)
    assert repr(ws.jit(np.sin)) == "<jit of sin, device 'cpu', 0 programs>"


def test_a_notebook_shows_a_step_as_a_card(step):
    card, _, folded = step._repr_html_().partition("<details>")
    assert 5 < len(card.splitlines()) <= 10
    assert printable(HOSTILE)[:8] in card and "<summary>program</summary>" in folded and "kernel" in folded


def test_words_are_text():
    assert (
        Words("a\nb") == "a\nb"
        and repr(Words("a\nb")) == "a\nb"
        and Words("<b>")._repr_html_() == "<pre>&lt;b&gt;</pre>"
    )
    assert printable("plain\ttext\n\u00a0é 中 🙂") == "plain\ttext\n\u00a0é 中 🙂"


def test_a_history_is_a_figure(step, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    history = trained(step)[1]
    figure = history.plot()
    assert figure._repr_png_().startswith(b"\x89PNG") and not list(tmp_path.iterdir())
    history.plot(tmp_path / "run.png")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
