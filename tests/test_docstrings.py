"""Every public docstring has its parts in one form; docs/testing.md says which."""

import builtins
import doctest
import importlib
import inspect
import re
import sys
from types import FunctionType, ModuleType
from typing import Any

import pytest

from wholestep import dims, errors
from wholestep.train.step.step import Step
from wholestep_tools.site.names import LOOP, MODULES, STEP

SPACES = ("wholestep", "wholestep.random", "wholestep.nn", "wholestep.optim")
PUBLIC: dict[str, tuple[str, Any]] = {
    f"{space}.{name}": (space, getattr(package, name))
    for space in SPACES
    for package in [importlib.import_module(space)]
    for name in package.__all__
    if not isinstance(getattr(package, name), ModuleType)
}
PUBLIC |= {
    f"{module}.{name}": (module, getattr(importlib.import_module(module), name))
    for module, names in {**MODULES, **LOOP}.items()
    for name in names.split()
}
PUBLIC |= {f"step.{name}": ("step", getattr(Step, name)) for name in STEP.split()}
BARE = {"wholestep.WholestepError": "the root of all errors: it is caught, and never called"}
"""Public names without shapes, errors and an example, each with the reason."""
FORMULAS = """
activations attention attention_layer conv_layers convolution cross_entropies ctc dropouts embeddings gates losses
norm_layers normalization pool_layers pooling positions probabilities ranking_losses recurrent resampling transformer
transposed
continuous discrete init keys metrics rejection
accumulation adam_kin adaptive averaging chaining compound descent factored grouping moments orthogonal plateaus
quasi_newton schedules public
""".split()
"""Modules whose numbers follow formulas."""
SOURCELESS = {
    **{
        f"wholestep.optim.{name}": "what is given, put together"
        for name in """Chain Constant Groups Join Piecewise Scaled Schedule average chain constant global_norm groups
            join piecewise scaled""".split()
    },
    "wholestep.optim.Accumulate": "a mean",
    "wholestep.optim.accumulate": "a mean",
    **dict.fromkeys(("wholestep.nn.init.constant", "wholestep.nn.init.ones", "wholestep.nn.init.zeros"), "one number"),
    "wholestep.nn.metrics.Accuracy": "a share of a count",
    "wholestep.nn.metrics.ConfusionMatrix": "a count",
    "wholestep.nn.metrics.Mean": "a mean",
    "wholestep.nn.metrics.accuracy": "a share of a count",
    "wholestep.nn.metrics.confusion_matrix": "a count",
    "wholestep.nn.metrics.top_k_accuracy": "a share of a count",
    "wholestep.random.bernoulli": "a uniform number below p",
    "wholestep.random.key": "the words of the seed",
    "wholestep.random.permutation": "the order of random words",
}
"""Functions of those modules without a source, each with the reason."""
LABELS = ("Shapes", "Raises", "Source")


def parts(name: str) -> dict[str, str]:
    """The labelled paragraphs of a public docstring by label, in order."""
    block = next((b for b in paragraphs(name) if b.startswith("Shapes: ")), "")
    cut = re.split(rf"^({'|'.join(LABELS)}): ", block, flags=re.MULTILINE)
    return dict(zip(cut[1::2], [" ".join(text.split()) for text in cut[2::2]], strict=True))


def paragraphs(name: str) -> list[str]:
    return (inspect.getdoc(PUBLIC[name][1]) or "").split("\n\n")


@pytest.mark.parametrize("name", sorted(PUBLIC.keys() - BARE.keys()))
def test_a_public_docstring_has_its_parts(name: str) -> None:
    first, *rest = paragraphs(name)
    assert "\n" not in first and first.endswith(".")
    assert any(text.startswith(">>> ") for text in rest)
    found = parts(name)
    assert list(found) == [label for label in LABELS if label in found] and {"Shapes", "Raises"} <= found.keys()
    assert all(text.endswith(".") for text in found.values())
    assert not re.search(r"\bRaises [A-Za-z]+Error", " ".join(rest))


@pytest.mark.parametrize(
    "name", sorted(n for n, (_, thing) in PUBLIC.items() if thing.__module__.rpartition(".")[2] in FORMULAS)
)
def test_a_formula_has_a_source(name: str) -> None:
    assert ("Source" in parts(name)) != (name in SOURCELESS)


@pytest.mark.parametrize("name", sorted(PUBLIC.keys() - BARE.keys()))
def test_what_a_docstring_refers_to_exists(name: str) -> None:
    found = parts(name)
    for word in re.findall(r"(?<![\w.])[A-Z]\w*(?:Error|Warning)\b", found["Raises"]):
        assert any(hasattr(module, word) for module in (errors, dims, builtins)) or word == "NotFittedError", word
    for label in LABELS:
        for other in re.findall(r"\bas `(?:ws\.)?([\w.]+)`", found.get(label, "")):
            near = f"{PUBLIC[name][0]}.{other}"
            known = near if near in PUBLIC else f"wholestep.{other}"
            assert known != name and label in parts(known), f"{name}: {label}: as {other}"


PARAMETERS = {
    name: [p for p in inspect.signature(thing).parameters if p not in ("self", "args", "kwargs")]
    for name, (_, thing) in PUBLIC.items()
    if callable(thing)
}
TAKEN = re.compile(r"\b(?:arguments|options|settings)\b[^.;]*?\bthose of `(?:ws\.)?([\w.]+)`", re.IGNORECASE)
"""A sentence that refers to the arguments of another name for those that the docstring does not name."""


def said(name: str) -> str:
    """The parts of a docstring that name parameters: its first sentence, its code, and its shapes."""
    first, *rest = paragraphs(name)
    code = re.findall(r"`[^`]+`", " ".join(text for text in rest if not text.startswith((">>> ", "Shapes: "))))
    return " ".join([first, *code, parts(name).get("Shapes", "")])


def taken_from(name: str) -> list[str]:
    """The public names to which a docstring refers for parameters, one reference away for a reader."""
    prose = " ".join(" ".join(t.split()) for t in paragraphs(name) if not t.startswith((">>> ", "Shapes: ")))
    shapes = re.findall(r"\b(?:as|those of) `(?:ws\.)?([\w.]+)`", parts(name).get("Shapes", ""))
    others = [*TAKEN.findall(prose), *shapes]
    known = [found for x in others for found in (f"{PUBLIC[name][0]}.{x}", f"wholestep.{x}") if found in PUBLIC]
    return [other for other in known if other != name]


@pytest.mark.parametrize("name", sorted(n for n, parameters in PARAMETERS.items() if parameters))
def test_every_parameter_is_said(name: str) -> None:
    texts = [said(x) for x in (name, *taken_from(name))]
    unsaid = [p for p in PARAMETERS[name] if not any(re.search(rf"(?<!\w){p}(?!\w)", text) for text in texts)]
    assert not unsaid, f"{name}: {', '.join(unsaid)}"


LATE = [n for n, (_, thing) in PUBLIC.items() if str(getattr(thing, "__module__", "")).startswith("wholestep.train.")]
ELSEWHERE = {
    **{
        f"wholestep.train.loop.services.{name}": "tests/train/test_services.py runs it, or a fake of it"
        for name in LOOP["wholestep.train.loop.services"].split()
    },
    "wholestep.calibrate": "tests/train/test_profile.py runs it, and puts the rates back",
    "wholestep.to_tensorflow": "tests/export/test_tensorflow.py runs it, where TensorFlow is installed",
    "wholestep.to_torch": "tests/export/test_handover.py runs it, where torch is installed",
}


MADE = [
    name
    for name, (_, thing) in PUBLIC.items()
    if isinstance(thing, FunctionType) and thing.__globals__ is not vars(sys.modules[thing.__module__])
]
"""Functions that another function made, which doctest does not take for those of their module."""


@pytest.mark.parametrize("name", sorted({*LATE, *MADE} - ELSEWHERE.keys()))
def test_an_example_of_what_is_imported_late_or_made_runs(name: str) -> None:
    thing = inspect.unwrap(PUBLIC[name][1])
    names = vars(importlib.import_module(thing.__module__))
    (example,) = doctest.DocTestFinder(recurse=False).find(thing, name, globs=dict(names))
    failed, tried = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example)
    assert tried and not failed
