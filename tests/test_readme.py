"""The README's programs run as they stand, and its model is the one that ships."""

import linecache
import re
from operator import attrgetter
from pathlib import Path

import pytest

import wholestep as ws
from wholestep.primitives.family import REGISTRY

README = Path(__file__).parent.parent / "README.md"


DOCS = README.parent / "docs"
PAGES = {page.relative_to(DOCS).with_suffix("").as_posix(): page for page in sorted(DOCS.rglob("*.md"))}
NOT_RUN = {"language": "its blocks are printed programs, not Python to be run"}


PEERS = {"coming/pytorch": "torch", "coming/keras": "keras"}
"""Pages with blocks for another library, which run where it is installed."""


def blocks(page, language="python"):
    return re.findall(rf"```(?:{language})\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def run(page, language="python"):
    """The names that the blocks of a page define, run one after another."""
    names = {}
    for number, source in enumerate(blocks(page, language)):
        name = f"{page.name} {number}"  # with its text at hand, as a file's and a notebook cell's is
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        exec(compile(source, name, "exec"), names)
    return names


def test_python_blocks_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(blocks(README)) >= 6
    names = run(README)
    assert names["value"] > 0
    assert names["history"].losses[-1] < names["history"].losses[0]
    assert (tmp_path / "model.safetensors").exists()


@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if blocks(page) and name not in NOT_RUN])
def test_a_page_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run(PAGES[name])
    if name == "step":
        assert len(names["losses"]) == 21
        assert names["step"].hyper == {"lr": 0.001}
    if name == "optim":
        assert names["accumulated"].state["optimizer"]["optimizer"]["count"] == 2
        assert names["trial"].suggestion > 0
    if name == "memory":
        assert names["lean"] == 128 < names["full"]


@pytest.mark.filterwarnings("ignore:::keras")
@pytest.mark.parametrize("name", PEERS)
def test_the_job_of_another_library_gives_the_same(name, tmp_path, monkeypatch):
    pytest.importorskip(PEERS[name], reason="another library, to compare with; not installed")
    monkeypatch.chdir(tmp_path)
    names = run(PAGES[name], "py|python")
    if name == "coming/pytorch":
        assert names["ours"] == pytest.approx(names["theirs"], rel=1e-4)
    else:
        assert names["our_accuracy"] == pytest.approx(names["their_accuracy"], abs=0.03)


@pytest.mark.parametrize("name", [name for name in PAGES if name.startswith("coming/")])
def test_names_beside_those_of_other_libraries_exist(name):
    cells = [row.split("|")[2] for row in PAGES[name].read_text(encoding="utf-8").splitlines() if row.startswith("| ")]
    told = re.findall(r"`((?:ws|nn|optim)(?:\.\w+)+)", " ".join(cells))
    assert len(told) > 2
    for place in told:
        attrgetter(place.removeprefix("ws."))(ws)


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_linked(name):
    assert f"docs/{name}.md" in README.read_text(encoding="utf-8")


def test_the_first_screen_says_what_it_is_and_what_it_is_not():
    screen = "\n".join(README.read_text(encoding="utf-8").splitlines()[:40])
    (picture,) = re.findall(r"!\[[^]]*\]\((.*?)\)", screen)
    assert 0 < (README.parent / picture).stat().st_size < 100_000
    assert len(blocks(README)[0].splitlines()) <= 12
    assert "| training step, ms |" in screen and "(docs/limits.md)" in screen


def test_the_number_of_primitives_is_the_true_one() -> None:
    assert f"SSA graph over {len(REGISTRY)} primitives" in README.read_text(encoding="utf-8")
