"""The audits of hostile input find nothing in a small run of correct code, and find each planted fault."""

import html
import json

import pytest

from wholestep.ir import text
from wholestep.train.checkpoint import read, safetensors_header
from wholestep_tools.audit.hostile import headers, markup, names, paths, texts


def clean(found):
    assert found["failures"] == 0, found["examples"]
    json.dumps(found)
    return found["checks"]


def test_headers():
    assert clean(headers.audit(20_000, 1))["of them refused"] > 15_000


@pytest.mark.parametrize("error", [MemoryError, IndexError])
def test_a_parser_that_raises_something_else_is_found(monkeypatch, error):
    def failing(*_):
        raise error

    monkeypatch.setattr(headers, "decoded", failing)
    assert headers.audit(10, 1)["failures"] == 13


def test_a_parser_that_reads_other_numbers_is_found(monkeypatch):
    decoded = safetensors_header.decoded

    def other(data, room):
        found = decoded(data, room)
        return found._replace(blocks=tuple(block._replace(start=block.start + 1) for block in found.blocks))

    monkeypatch.setattr(headers, "decoded", other)
    assert headers.audit(2000, 1)["failures"] > 20


def test_texts():
    assert clean(texts.audit(1500, 1))["of them refused"] > 1200


def test_a_text_that_is_believed_is_found(monkeypatch):
    monkeypatch.setattr(text, "SENSELESS", ())
    assert texts.audit(500, 1)["failures"] > 5


def test_paths():
    checks = clean(paths.audit(120, 1))
    assert checks["names that were refused"] > 100


def test_a_name_that_is_followed_is_found(monkeypatch):
    monkeypatch.setattr(read, "PLAIN", AnyName())
    found = paths.audit(60, 1)
    assert any("opened" in line for line in found["examples"])


class AnyName:
    def fullmatch(self, name):
        return "\0" not in name


def test_names(monkeypatch):
    """Programs of 34 parameters: those of 100 take longer to check, with no more names in all."""
    monkeypatch.setattr(names, "WIDE", 34)
    assert clean(names.audit(150, 1))["names"] >= 150


def test_a_name_in_code_is_found(monkeypatch):
    code = names.code
    monkeypatch.setattr(names, "WIDE", 12)
    monkeypatch.setattr(names, "code", lambda graph: (code(graph)[0] + graph.name, ""))
    assert names.audit(12, 1)["failures"] == 1


def test_markup():
    assert clean(markup.audit(16, 1))["names"] == 16


def test_live_markup_is_found(monkeypatch):
    monkeypatch.setattr(html, "escape", lambda words, quote=True: words)
    monkeypatch.setattr(markup, "PIECES", ("<b>",))
    monkeypatch.setattr(markup, "evil_name", lambda rng: "<b>")
    found = markup.audit(8, 1)
    views = {line.split(" ")[0] for line in found["examples"]}
    assert views >= {"Step", "Words", "summary"}


@pytest.mark.parametrize("page", ["<b>", "<p onclick=1>", "<!-- -->", "<!x>", "<?x>"])
def test_a_skeleton_has_every_tag(page):
    assert markup.Skeleton(f"<p>{page}</p>").tags != markup.Skeleton("<p></p>").tags
    assert markup.Skeleton(f"<p>{html.escape(page)}</p>").tags == markup.Skeleton("<p></p>").tags


@pytest.mark.parametrize(
    ("source", "match"),
    [
        ("def f(x: f64, x: f64):\n return x", "one name"),
        ("def f(x: f64 = 1):\n return x", "more than inputs"),
        ("@f\ndef f(x: f64):\n return x", "more than inputs"),
        ("def f(x: f64):\n return x\n return x", "expected an assignment"),
        ("def f(x: f64):\n x: f64 = sin(x)\n return x", "assigned twice"),
        ("def f(x: f64[2]):\n a, b = c, d = sort(x, axis=0)\n return a", "otherwise than once"),
        ("def f(x: f64[2]):\n a, a = sort(x, axis=0)\n return a", "otherwise than once"),
        ("def f(x: f64[2]):\n y: f64 = sum(x, **x)\n return y", "does not name"),
        ("def f(x: f64[2]):\n y: f64 = sum(x, axes=(7,))\n return y", "not a graph: sum: axis 7"),
        ("def f(x: f64[2]):\n y: f64 = sum(x, uaxes=())\n return y", "not a graph"),
        ("def f(x: f99):\n return x", "no dtype"),
        ("def f(x: f64):\n y: f64 = constant(value=b'1')\n return y", "parse"),
    ],
)
def test_a_text_that_makes_no_sense_is_one_error(source, match):
    with pytest.raises(text.GraphError, match=match):
        text.parse(source)
