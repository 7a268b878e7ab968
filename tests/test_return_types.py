"""What public functions return has a type that an editor can show: `Any` stands where nothing more can be said."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.test_docstrings import PUBLIC

STATE = "a tree of arrays whose structure is the optimizer's own"
WRAPPED = "what the part inside returns"
SETTLED = "a parameter of the update, a number or traced"
UNTYPED = {
    "wholestep.concat_rows": "a tree like each of the parts, or an object with items",
    "wholestep.eval_shape": "the tree of f's result with ShapeDtypes for arrays",
    "wholestep.hvp": "one tree for one argument, a tuple for several; overloads tell them apart",
    "wholestep.optim.average": "a tree like the parameters, which the state alone does not name",
    "wholestep.nn.from_torch": "the type of the model; overloads say it",
    "wholestep.nn.load": "the type of the model, or a dictionary; overloads say it",
    "step.predict": "what the model returns",
    "wholestep.Dim.at": "a size, an integer or a symbol",
    "wholestep.Loader.example": "a batch, as the source has it",
    "wholestep.Loader.made": "a batch, as the source has it",
    "wholestep.Loader.finished": "a batch, as the source has it",
    "wholestep.Loader.joined": "a batch, as the source has it",
    **dict.fromkeys(
        ("wholestep.tree.map", "wholestep.tree.map_with_path", "wholestep.tree.transpose", "wholestep.tree.unflatten"),
        "a tree, of which its structure alone says what it is",
    ),
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


RETURNS = {name: f.__annotations__.get("return") for name, f in functions()}


@pytest.mark.parametrize("name", sorted(RETURNS))
def test_a_public_function_says_what_it_returns(name: str) -> None:
    assert RETURNS[name] is not None
    assert (RETURNS[name] == "Any") == (name in UNTYPED)


def test_every_exception_is_a_public_function() -> None:
    assert not UNTYPED.keys() - RETURNS.keys()
