"""The documentation site: every public name is in its reference, every page in its navigation, and every link leads on.

`make site` builds it; here the same pages are looked at without MkDocs.
"""

import inspect
import re
import warnings
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import wholestep as ws
from wholestep import nn, optim, random
from wholestep_tools.site import links, names, pages, reference

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
GENERATED = pages.generated(ROOT)
WRITTEN = {path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")}
NAV = re.findall(r"^ +- (?:[^:\n]+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
TROUBLE = dict(re.findall(r"^## (\w+)\n\n(.*?)(?=^## |\Z)", WRITTEN["troubleshooting.md"], re.MULTILINE | re.DOTALL))


def test_every_page_is_in_the_navigation_once():
    examples = {page for page in GENERATED if page.startswith("examples/")} - {"examples/overview.md"}
    assert len(NAV) == len(set(NAV))
    assert set(NAV) == {*WRITTEN, *GENERATED} - examples


def test_every_link_leads_to_a_page_and_a_heading_of_it():
    assert links.broken({**WRITTEN, **GENERATED}) == []


def test_a_link_that_leads_nowhere_is_found():
    told = {"a.md": "# A b\n\n[x](b.md) [y](#a-b) [z](#c) [w](../examples/none.py)\n"}
    assert links.broken(told) == ["a.md: ](b.md)", "a.md: ](#c)", "a.md: ](../examples/none.py)"]


@pytest.mark.parametrize(("prefix", "space"), [("ws", ws), ("nn", nn), ("optim", optim), ("ws.random", random)])
def test_every_public_name_is_in_the_reference(prefix, space):
    public = {f"{prefix}.{name}" for name in space.__all__ if not isinstance(getattr(space, name), ModuleType)}
    known = {entry.name for entry in names.entries()}
    assert public - {"ws.WholestepError"} <= known
    index = GENERATED["reference/index.md"]
    assert all(f"`{name}`" in index for name in known)


def test_every_module_that_is_public_is_in_the_reference():
    modules = {name for name in ws.__all__ if isinstance(getattr(ws, name), ModuleType)}
    told = {module.split(".")[1] for _, module in names.SPACES.values()} | {
        name.split(".")[1] for name in names.COVERED
    }
    assert modules == {*told, "errors"}


def test_a_page_of_the_reference_has_signature_text_and_example():
    page = GENERATED["reference/control.md"]
    assert "## ws.cond { #cond }" in page
    assert "```python\ncond(" in page
    assert "**Raises.**" in page
    assert "```pycon\n>>> " in page


def test_a_parameter_of_a_class_is_no_link_to_a_function_of_its_name():
    page = GENERATED["reference/nn.md"]
    text = page[page.index("## nn.MLP {") : page.index("## nn.MaxPool1d {")]
    assert "those of [`Linear`](nn.md#linear-class); `dropout` is a probability" in text


def test_signatures_show_no_quotes_and_no_addresses():
    def f(x: "int", *, g=np.sin, h=nn.relu) -> "dict[str, int]": ...

    assert reference.signature("f", f) == "f(x: int, *, g=sin, h=relu) -> dict[str, int]"
    assert reference.signature("Dropout", nn.Dropout) == "Dropout(p: float = 0.5)"
    assert not re.search(r" at 0x|-> '|: '", "".join(GENERATED.values()))


def test_the_page_of_the_language_lists_the_functions_that_take_rewrite():
    functions = {
        name: getattr(ws, name) for name in ws.__all__ if inspect.isfunction(getattr(ws, name)) or name == "jit"
    }
    told = re.search(r"`rewrite=False` in a transform \(([^)]*)\)", WRITTEN["language.md"])
    assert set(re.findall(r"`(\w+)`", told[1])) == {
        name for name, f in functions.items() if "rewrite" in inspect.signature(f).parameters
    }


def test_the_page_of_the_language_shows_a_primitive_as_it_is():
    (statement,) = re.findall(r"^cbrt = .*$", WRITTEN["language.md"], re.MULTILINE)
    functions = ROOT / "src" / "wholestep" / "primitives" / "functions.py"
    assert statement in functions.read_text(encoding="utf-8").splitlines()


def test_troubleshooting_has_each_error_with_its_sentence():
    assert list(TROUBLE) and set(TROUBLE) == {cls.__name__ for cls in names.errors()}
    for cls in names.errors():
        assert TROUBLE[cls.__name__].startswith(cls.__doc__.split("\n\n")[0])


@pytest.mark.parametrize(
    "cls", [x for x in names.errors() if "```py\n" in TROUBLE[x.__name__]], ids=lambda x: x.__name__
)
def test_the_shortest_program_meets_its_error(cls, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (source,) = re.findall(r"```py\n(.*?)```", TROUBLE[cls.__name__], re.DOTALL)
    with warnings.catch_warnings(), pytest.raises(cls) as met:
        warnings.simplefilter("error")
        exec(compile(source, "troubleshooting.md", "exec"), {"np": np, "ws": ws, "nn": nn})
    assert met.type is cls
