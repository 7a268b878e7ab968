"""Tracebacks hold the frames of callers alone; test_errors.py looks at those of every golden error."""

import threading
import traceback
from pathlib import Path

import numpy as np
import pytest

import wholestep as ws
from wholestep import config
from wholestep.errors import WholestepError, is_internal


def printed(f):
    """An error as Python prints it, and the files of its frames."""
    try:
        f()
    except Exception as error:
        text = traceback.format_exception(error)
        files, waiting = [], [error]
        while waiting:
            one = waiting.pop()
            files += [frame.filename for frame in traceback.extract_tb(one.__traceback__)]
            waiting += [x for x in (one.__cause__, one.__context__) if x is not None and not one.__suppress_context__]
        return error, "".join(text), files
    raise AssertionError("there was no error")


@pytest.fixture
def words(monkeypatch):
    """Set the words of WHOLESTEP_DEBUG."""

    def set_words(given):
        monkeypatch.setenv("WHOLESTEP_DEBUG", given)
        config.reread()

    yield set_words
    monkeypatch.undo()
    config.reread()


def test_the_flag_keeps_every_frame(words):
    words("traceback")
    _, text, files = printed(shape)
    assert [file for file in files if is_internal(file)], text


@pytest.mark.parametrize("key", [None, 0])
def test_a_layer_that_is_refused_has_the_frames_of_its_caller(key):
    _, text, files = printed(lambda: ws.nn.Linear("3", 1, key=key))
    assert set(files) == {__file__}, text


def test_an_unknown_word_of_the_flag_is_one_short_error_and_a_note_below_others(words):
    words("tracback")
    _, text, files = printed(lambda: ws.jit(lambda x: x + 1)(np.ones(2)))
    assert text.count("Traceback") == 1 and "unknown word 'tracback'" in text
    assert not [file for file in files if is_internal(file)]
    error, text, _ = printed(shape)
    assert type(error) is ws.errors.ShapeError and "unknown word 'tracback'" in text


def shape():
    ws.grad(lambda x: (x @ np.ones((4, 5))).sum())(np.ones((2, 3)))


def broken(x):
    raise KeyError("mine")


def wrapped(x):
    try:
        return broken(x)
    except KeyError as error:
        raise LookupError("no such row") from error


@pytest.mark.parametrize("transform", [ws.grad, ws.jit, ws.vmap, ws.checkpoint, lambda f: lambda x: ws.vjp(f, x)])
def test_the_callers_own_errors_pass_with_their_frames_and_causes(transform):
    error, text, _ = printed(lambda: transform(wrapped)(np.ones(2)))
    assert type(error) is LookupError and type(error.__cause__) is KeyError
    names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    assert names[-1] == "wrapped" and "differentiated" not in names, text
    assert [frame.name for frame in traceback.extract_tb(error.__cause__.__traceback__)][-1] == "broken"


def test_a_fault_of_the_library_keeps_its_frames(monkeypatch):
    def fails(*args, **kwargs):
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr("wholestep.frontend.gradients.backward", fails)
    fails.__code__ = fails.__code__.replace(co_filename=ws.__file__)
    _, text, files = printed(lambda: ws.grad(lambda x: np.sinh(np.cos(x) - 1.25))(1.0))  # of which nothing is cached
    assert [file for file in files if is_internal(file)], text


def test_a_step_too():
    step = ws.compile(lambda w, x: np.mean(w * x), np.ones(2), batch=np.ones(2))
    for f in (lambda: step({"x": 1}), lambda: step(1, 2), lambda: step.parameters, lambda: step.set(speed=1)):
        error, text, files = printed(f)
        assert isinstance(error, WholestepError)
        assert not [file for file in files if is_internal(file)], text


def test_numpy_is_between_wherever_it_is_installed(tmp_path, monkeypatch):
    own = Path(np.__file__).parent / "linalg" / "_linalg.py"
    assert is_internal(str(own)) and not is_internal(str(tmp_path / "numpy" / "mine.py"))
    assert not is_internal(str(tmp_path / "threading.py")) and is_internal(threading.__file__)
    assert not is_internal(str(Path(threading.__file__).parent / "site-packages" / "mine" / "model.py"))
    monkeypatch.setattr(np, "__path__", [str(tmp_path / "dist-packages" / "numpy")])
    assert is_internal(str(tmp_path / "dist-packages" / "numpy" / "mine.py"))
