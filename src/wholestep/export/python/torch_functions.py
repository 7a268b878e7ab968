"""Functions that PyTorch has as one operation, and their derivatives, in its words."""

from __future__ import annotations

from collections.abc import Callable

from wholestep.export.python.vocabulary import Call


def torch_layer_norm(c: Call) -> str:
    """A layer norm along the last axis, with the mean and the inverse deviation of each row."""
    return f"torch.native_layer_norm({c.a[0]}, ({c.types[0].shape[-1]},), {c.a[1]}, {c.a[2]}, {c.numbers[3]})"


def torch_layer_norm_gradients(c: Call) -> str:
    """The gradients of a layer norm, its gain and its bias."""
    x, gain, bias, _, _, mean, deviation, g = c.a
    size = f"({c.types[0].shape[-1]},)"
    rest = f"{mean}, {deviation}, {gain}, {bias}, (True, True, True)"
    return f"torch.ops.aten.native_layer_norm_backward({g}, {x}, {size}, {rest})"


def torch_attention(causal: bool) -> Callable[[Call], str]:
    """Values mixed by attention, with the logarithm of each row's sum of exponentials."""
    return lambda c: f"mixed_values({', '.join(c.a[:3])}, {c.numbers[3]}, {causal})"


def torch_attention_gradients(causal: bool) -> Callable[[Call], str]:
    """The gradients of queries, keys and values."""
    return lambda c: f"attention_gradients({', '.join([*c.a[:3], *c.a[4:]])}, {c.numbers[3]}, {causal})"


FUSED: dict[str, Callable[[Call], str]] = {
    "layer_norm": torch_layer_norm,
    "layer_norm_gradients": torch_layer_norm_gradients,
    "gelu_tanh": lambda c: f"(torch.nn.functional.gelu({c.a[0]}, approximate='tanh'),)",
    "gelu_tanh_gradients": lambda c: f"(torch.ops.aten.gelu_backward({c.a[2]}, {c.a[0]}, approximate='tanh'),)",
    "attention": torch_attention(causal=False),
    "attention_gradients": torch_attention_gradients(causal=False),
    "causal_attention": torch_attention(causal=True),
    "causal_attention_gradients": torch_attention_gradients(causal=True),
}
"""The spelling of functions by the labels that fused ones have."""


def torch_called(c: Call) -> str:
    """A function of the library, or one of the file that computes a graph."""
    word = FUSED.get(c.p["label"])
    return f"{c.function('graph')}({', '.join(c.a)})" if word is None else word(c)
