"""`wholestep train text` as a user runs it, on a few steps of a small model, and the text that the model writes."""

import re

import numpy as np
import pytest
from safetensors import safe_open
from tests.cli.interrupted import compiled_once, pressing, same_bits

import wholestep as ws
from wholestep import tree
from wholestep.cli import main, text
from wholestep.cli.train import text as job
from wholestep.train.data.text_corpus import Corpus, corpus, decode, encode

__all__ = ["compiled_once"]
pytestmark = pytest.mark.usefixtures("compiled_once")

PNG = b"\x89PNG\r\n\x1a\n"
SMALL = ("--width", "16", "--layers", "1")
STEPS = 12


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Evaluate on fewer characters and write fewer, so that a test spends most of its time on training."""
    whole = corpus()
    monkeypatch.setattr(job, "corpus", lambda: Corpus(whole.train, whole.test[:5000], whole.files))
    monkeypatch.setattr(job, "WATCHED", 8)


def run(tmp_path, *options):
    return main(["train", "text", "--out", str(tmp_path), *SMALL, *options])


def test_it_learns_and_writes_and_says_so(tmp_path, capsys):
    assert run(tmp_path, "--steps", "200", "--batch-size", "16", "--width", "32") == 0
    said = capsys.readouterr().out
    assert "held out" in said and "200 steps of 2048 characters" in said
    bits = float(re.search(r"held out +([\d.]+) bits per character, 6.58 for a guess", said)[1])
    assert 3 < bits < 4.2
    written = said[said.index("def ") : said.index("held out  ")].strip("\n")
    assert written.isascii() and 400 < len(written) <= 504
    assert (tmp_path / "report.png").read_bytes().startswith(PNG)
    with safe_open(tmp_path / "model.safetensors", "np") as file:
        assert file.metadata() == {
            "bits_per_character": f"{float(file.metadata()['bits_per_character']):.4f}",
            "steps": "200",
        }
        assert "blocks[0].attention.qkv.weight" in file.keys()


def test_a_run_that_was_interrupted_goes_on_to_the_same_bits(tmp_path, capsys, monkeypatch):
    steps = ("--steps", str(STEPS))
    assert run(tmp_path / "whole", *steps) == 0
    with monkeypatch.context() as patch:
        patch.setattr(job, "fit", pressing(job.fit, 5))
        assert run(tmp_path / "parts", *steps) == 130
    assert "stopped after 5 steps; " in capsys.readouterr().out
    assert run(tmp_path / "parts", "--resume", "--steps", "11") == 1
    assert "is of a run of 12 steps, not 11" in capsys.readouterr().err
    assert run(tmp_path / "parts", "--resume", *steps, "--seed", "1") == 1
    assert "with another --seed than 1" in capsys.readouterr().err
    assert run(tmp_path / "parts", "--resume") == 0  # for as many steps as it was planned for
    assert same_bits(*[tmp_path / name / "checkpoint.safetensors" for name in ("whole", "parts")])


def test_minutes_become_steps_and_trying_leaves_nothing_behind(tmp_path, capsys, monkeypatch):
    ticks = iter(range(0, 1000, 100))
    monkeypatch.setattr(job.time, "perf_counter", lambda: next(ticks))  # 20 steps tried take 100 seconds
    monkeypatch.setattr(job, "fit", lambda step, *rest, **options: (_ for _ in ()).throw(Seen(step, options)))
    with pytest.raises(Seen) as seen:
        run(tmp_path, "--minutes", "2")
    step, options = seen.value.args
    assert options["steps"] == 24 and step.hyper["steps"] == 24
    assert step.steps == 0 and not any(np.any(x) for x in tree.leaves(step.state["optimizer"]))


class Seen(Exception):
    """An exception with the arguments of `fit`."""


@pytest.mark.parametrize("precision", ["bfloat16", "float16", "float64"])
def test_every_precision_takes_steps(tmp_path, precision):
    assert run(tmp_path, "--steps", "2", "--precision", precision) == 0


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--minutes", "0"], 2, "--minutes: must be above 0"),
        (["--steps", "0"], 2, "--steps: must be 1 or more"),
        (["--precision", "int8"], 2, "invalid choice"),
        (["--width", "12"], 1, "--width 12 is no multiple of 8"),
        (["--resume"], 1, "there is no checkpoint"),
    ],
)
def test_bad_values_are_refused_before_anything_is_made(tmp_path, capsys, options, code, says):
    assert run(tmp_path, *options) == code
    assert says in capsys.readouterr().err
    assert not (tmp_path / "model.safetensors").exists()


def test_what_is_written_one_by_one_is_what_the_whole_model_says():
    """At a temperature near zero each character is the likeliest one, also after the context is full."""
    model = text.Writer(96, 16, 2, key=ws.random.key(0))
    beginning, reach = encode("def f"), 8
    found = ws.jit(text.writing(12, reach, temperature=1e-4))(model, {"key": ws.random.key(1), "text": beginning})
    so_far = list(beginning)
    for character in found:
        if len(so_far) <= reach:
            assert character == np.argmax(model(np.array([so_far]))[0, -1])
        so_far.append(int(character))
    assert len(decode(np.array(so_far))) == 17
    many = ws.jit(text.writing(12, 1, temperature=1e-4))(model, {"key": ws.random.key(1), "text": beginning})
    for last, character in zip([beginning[-1], *many[:-1]], many, strict=True):
        assert character == np.argmax(model(np.array([[last]]))[0, -1])  # a context of one character
