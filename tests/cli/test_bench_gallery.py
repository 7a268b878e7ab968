"""`wholestep bench gallery`: a twin for every example, errors for other numbers, and twins that compute the same."""

import importlib
import json

import pytest

from wholestep.cli import main
from wholestep.errors import CommandError
from wholestep_tools.bench import gallery
from wholestep_tools.bench.gallery_twins import GROUPS, TWINS
from wholestep_tools.bench.gallery_twins.caught import by_path, training
from wholestep_tools.site.gallery import BESIDE, EXAMPLES, files, loaded, page


@pytest.fixture
def jax():
    """JAX with 64-bit floats, as in the bench; its setting is restored afterwards."""
    found = pytest.importorskip("jax", reason="JAX is compared where it is installed")
    before = found.config.jax_enable_x64
    yield found
    found.config.update("jax_enable_x64", before)


def test_the_examples_have_twins_and_nothing_else_has():
    assert sum(map(len, GROUPS.values())) == len(TWINS)
    assert set(TWINS) == {file.stem for file in files()}


def test_a_group_has_its_twins(jax):
    for group, names in GROUPS.items():
        module = importlib.import_module(f"wholestep_tools.bench.gallery_twins.{group}")
        assert all(callable(getattr(module, name)) for name in names)


@pytest.mark.parametrize("name", ["bayes", "gaussian_process", "lora", "quantum"])
def test_both_libraries_compute_the_same(name, jax, tmp_path, capsys):
    file = tmp_path / "found.json"
    options = ["--only", name, "--rounds", "1", "--budget", "0.001", "--json", str(file)]
    assert main(["bench", "gallery", *options]) == 0
    assert name in capsys.readouterr().out
    found = json.loads(file.read_text(encoding="utf-8"))
    assert list(found["examples"]) == [name] and min(found["examples"][name].values()) > 0


def test_an_example_stops_at_its_first_step():
    found = training(loaded(EXAMPLES / "vae.py"))
    assert found.batch.shape == (100, 5) and len(found.steps) == 1
    assert by_path(found.steps[0].params).keys() == found.params[0].keys()
    assert "decoder.weight" in found.params[0]


def test_other_numbers_are_an_error():
    gallery.agree("it", ([1.0, 100.0], [1.0, 100.001]))
    for theirs in ([1.0, 2.001], [1.0, float("nan")]):
        with pytest.raises(CommandError, match="it: wholestep and jax differ"):
            gallery.agree("it", ([1.0, 2.0], theirs))


@pytest.mark.parametrize(
    ("options", "says"),
    [(["--only", "nothing"], "no example is named nothing"), (["--json", "nowhere/found.json"], "no folder nowhere")],
)
def test_what_there_is_not_is_an_error(options, says, capsys):
    assert main(["bench", "gallery", *options]) == 1
    assert says in capsys.readouterr().err


def test_without_jax_nothing_is_measured(monkeypatch, capsys):
    monkeypatch.setattr(gallery.importlib.util, "find_spec", lambda name: None)
    assert main(["bench", "gallery"]) == 1
    assert "jax is not installed" in capsys.readouterr().err


def test_the_page_has_what_was_measured():
    found = json.loads(BESIDE.read_text(encoding="utf-8"))
    assert set(found["examples"]) == set(TWINS)
    assert found["processor"] in page() and found["peer"] in page()
    took = found["examples"]["vae"]
    row = next(line for line in page().splitlines() if line.startswith("| [vae]"))
    assert f"| {took['theirs'] / took['ours']:.2f} |" in row
