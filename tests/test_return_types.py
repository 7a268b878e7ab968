"""Results of public functions have types that an editor can show, and `Any` only where no narrower type exists."""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_overloads

import pytest
from tests.test_docstrings import PUBLIC

STATE = "a tree of arrays whose structure is the optimizer's own"
WRAPPED = "what the part inside returns"
SETTLED = "a parameter of the update, a number or traced"
UNTYPED = {
    "wholestep.nn.from_torch": "the type of the model; overloads say it",
    "wholestep.nn.load": "the type of the model, or a dictionary; overloads say it",
    "step.predict": "what the model returns",
    "wholestep.Dim.at": "a size, an integer or a symbol",
    **{
        f"wholestep.nn.{name}": WRAPPED
        for name in """Lambda.__call__ Orthogonal.__call__ Sequential.__call__ SpectralNorm.__call__ Stack.__call__
            Stack.init_cache WeightNorm.__call__""".split()
    },
    **{
        f"wholestep.nn.{name}": "an array between two steps of the class's own work"
        for name in """BatchNorm.toward GRUCell.advance LSTMCell.advance MultiHeadAttention.visible RNNCell.advance
            SpectralNorm.unit WeightNorm.lengths""".split()
    },
    **{
        f"wholestep.optim.{name}.init": STATE
        for name in "Accumulate Chain Ema Lbfgs Lookahead Muon Optimizer Plateau Projected Sam Transform".split()
    },
    **{
        f"wholestep.optim.{name}": SETTLED
        for name in """Accumulate.resolved Accumulate.weight_of AdaptiveClip.clip_units ClipByBlockRms.shortened
            ClipByValue.clipped CosineRestarts.begins Normalize.normalized Plateau.resolved
            Projected.resolved""".split()
    },
}
"""Public functions and methods annotated `-> Any`, each with the reason."""


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Public functions, and public methods of public classes, by name."""
    for name, (_, thing) in PUBLIC.items():
        members = [(name, thing)]
        if inspect.isclass(thing):
            members = [(f"{name}.{k}", v) for k, v in vars(thing).items() if k == "__call__" or not k.startswith("_")]
        for full, member in members:
            found = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if inspect.isfunction(found):
                yield full, inspect.unwrap(found)


FUNCTIONS = dict(functions())
RETURNS = {name: f.__annotations__.get("return") for name, f in FUNCTIONS.items()}


@pytest.mark.parametrize("name", sorted(RETURNS))
def test_a_public_function_says_what_it_returns(name: str) -> None:
    assert RETURNS[name] is not None
    assert (RETURNS[name] == "Any") == (name in UNTYPED)


def test_every_exception_is_a_public_function() -> None:
    assert not (UNTYPED.keys() | UNNAMED.keys()) - RETURNS.keys()


UNDECIDED = {
    f"wholestep.{name}" for name in "grad value_and_grad trace_gradients jacrev jacfwd jacobian hessian vmap".split()
}
"""Functions whose last overload returns Any, which mypy takes for functions without annotations of their own."""
UNNAMED = {
    "wholestep.closure_convert": "it takes arrays besides, as many as the function closes over",
    "wholestep.linearize": "tangents of any dtype and kind, also those that a vmap adds an axis to",
    "wholestep.trace": "it takes ShapeDtypes in the place of arrays",
    "wholestep.to_jax": "a function of another library's arrays",
    "wholestep.to_tensorflow": "a function of another library's arrays",
    "wholestep.to_torch": "a function of another library's arrays",
}
"""Public functions that return functions without the parameters of those they are given, each with the reason."""
UFUNC = "np.ufunc"


def variants(f: Callable[..., Any]) -> list[Callable[..., Any]]:
    """A function as a type checker sees it: its overloads, or those of the function whose types it has, or itself."""
    return list(get_overloads(getattr(f, "typed_as", f))) or [f]


@pytest.mark.parametrize("name", sorted(RETURNS))
def test_a_function_that_is_returned_has_parameters_and_a_result(name: str) -> None:
    given = [f.__annotations__ for f in variants(FUNCTIONS[name])]
    *first, last = [str(types.get("return")) for types in given]
    assert "Any" not in first
    assert (bool(first) and last == "Any") == (name in UNDECIDED)
    known = [str(types["return"]) for types in given if types.get("f") != UFUNC and types.get("return") != "Any"]
    assert any("Callable[..., " in shown for shown in known) == (name in UNNAMED)
    if name not in UNNAMED:
        assert not any(shown.startswith("Callable[") and shown.endswith(", Any]") for shown in known)


def test_a_type_checker_finds_these_types() -> None:
    api = pytest.importorskip("mypy.api", reason="mypy is not installed")
    root = Path(__file__).parents[1]
    config = str(root / "pyproject.toml")
    shown, errors, status = api.run([str(root / "tests" / "frontend" / "shown_types.py"), "--config-file", config])
    assert status == 0, shown + errors
