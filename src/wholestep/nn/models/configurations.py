"""Published configurations: their words for activations, labels and sizes, and the parts that are not built here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wholestep.errors import ModelError, ParameterError
from wholestep.nn.activations import gelu, relu, silu
from wholestep.nn.transformer import FeedForward


def gelu_tanh(x: Any) -> Any:
    """`gelu` by its approximation with tanh, as GPT-2 was trained."""
    return gelu(x, approximate="tanh")


ACTIVATIONS: Mapping[str, Callable[[Any], Any]] = {
    "gelu": gelu,
    "gelu_new": gelu_tanh,
    "gelu_pytorch_tanh": gelu_tanh,
    "relu": relu,
    "silu": silu,
}
"""Activations by the words of published configurations."""


def activation_named(word: str, model: str) -> Callable[[Any], Any]:
    """The activation that a configuration names; raises ModelError for an unknown name."""
    if word not in ACTIVATIONS:
        raise ModelError(f"{model}: the activation {word!r} is not known", hint=f"{', '.join(ACTIVATIONS)} are")
    return ACTIVATIONS[word]


def refuse_parts(model: str, parts: Mapping[str, bool]) -> None:
    """Raise ModelError for the parts of a configuration that are present and not supported here."""
    refused = [name for name, there in parts.items() if there]
    if refused:
        raise ModelError(f"{model}: not built here with this {', '.join(refused)}")


def hidden_ratio(net: FeedForward, width: int) -> float:
    """A ratio whose product with `width`, truncated to an integer, is the hidden width of a net."""
    hidden: int = net.down.weight.shape[0]
    exact = hidden / width
    return exact if int(exact * width) == hidden else (hidden + 0.5) / width


def activation_word(net: FeedForward) -> str:
    """The activation of a net, in the word of published configurations."""
    return next(word for word, f in ACTIVATIONS.items() if f is net.activation)


def label_count(config: Mapping[str, Any], bare: str) -> int:
    """The number of classes in a configuration of transformers, by default two; 0 for the class `bare`."""
    if bare in (config.get("architectures") or ()):
        return 0
    return len(config.get("id2label") or ()) or int(config.get("num_labels", 2))


def square_side(model: str, sides: Any) -> int:
    """The side of a square; raises ModelError for a rectangle."""
    high, wide = (sides, sides) if isinstance(sides, int) else sides
    if high != wide:
        raise ModelError(f"{model}: {high} by {wide} points; images and patches are square here")
    return int(high)


def check_layout(model: Any, layout: str) -> None:
    """Raise ParameterError for a layout of folders that a model does not have."""
    if layout not in model.published_names:
        known = ", ".join(map(repr, model.published_names))
        raise ParameterError(f"{model.__name__}: layout is {layout!r}", hint=f"{known} are known")
