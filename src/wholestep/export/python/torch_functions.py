"""Functions that PyTorch has as one operation, and their derivatives, in its words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wholestep.export.fused.forms import ATTENTIONS
from wholestep.export.python.vocabulary import Call


def torch_layer_norm(c: Call) -> str:
    """A layer norm along the last axis, with the mean and the inverse deviation of each row."""
    return f"torch.native_layer_norm({c.a[0]}, {row_size(c)}, {norm_parts(c.a[1:-1])}, {c.numbers[-1]})"


def torch_layer_norm_gradients(c: Call) -> str:
    """The gradients of a layer norm, and of its gain and its bias if it has them."""
    x, *parts, _, _, mean, deviation, g = c.a
    rest = f"{mean}, {deviation}, {norm_parts(parts)}, {wanted_gradients(parts)}"
    return f"torch.ops.aten.native_layer_norm_backward({g}, {x}, {row_size(c)}, {rest}){kept_gradients(parts)}"


def torch_batch_norm(c: Call) -> str:
    """A norm over all axes but the second, with the mean and the inverse deviation of each channel."""
    settings = f"None, None, True, 0.0, {c.numbers[-1]}"
    return f"torch.native_batch_norm({c.a[0]}, {norm_parts(c.a[1:-1])}, {settings})"


def torch_batch_norm_gradients(c: Call) -> str:
    """The gradients of a norm of a batch, and of its gain and its bias if it has them."""
    x, *parts, _, _, mean, deviation, g = c.a
    eps, gain = c.numbers[1 + len(parts)], parts[0] if parts else "None"
    rest = f"{gain}, None, None, {mean}, {deviation}, True, {eps}, {wanted_gradients(parts)}"
    return f"torch.ops.aten.native_batch_norm_backward({g}, {x}, {rest}){kept_gradients(parts)}"


def torch_group_norm(c: Call) -> str:
    """A norm of groups of channels, the second axis, with the mean and the inverse deviation of each."""
    return f"normed_groups({c.a[0]}, {norm_parts(c.a[1:-1])}, {group_count(c, len(c.a) - 1)}, {c.numbers[-1]})"


def torch_group_norm_gradients(c: Call) -> str:
    """The gradients of a norm of groups, and of its gain and its bias if it has them."""
    x, *parts, _, _, mean, deviation, g = c.a
    rest = f"{mean}, {deviation}, {parts[0] if parts else None}, {group_count(c, 1 + len(parts))}"
    return f"normed_groups_gradients({g}, {x}, {rest}, {wanted_gradients(parts)}){kept_gradients(parts)}"


def group_count(c: Call, eps: int) -> int:
    """The groups of a norm whose operand eps has one number for each mean."""
    return int(c.types[eps].shape[1])


def row_size(c: Call) -> str:
    """The size of the last axis, as the shape that a layer norm takes."""
    return f"({c.types[0].shape[-1]},)"


def norm_parts(parts: Sequence[str]) -> str:
    """The arguments for a gain and a bias, None for a missing one."""
    return ", ".join([*parts, "None", "None"][:2])


def wanted_gradients(parts: Sequence[str]) -> str:
    """For array, gain and bias whether their gradients are wanted."""
    return str(tuple([i <= len(parts) for i in range(3)]))


def kept_gradients(parts: Sequence[str]) -> str:
    """The gradients that there are among three."""
    return "" if len(parts) == 2 else f"[:{1 + len(parts)}]"


def torch_attention(causal: bool) -> Callable[[Call], str]:
    """Values mixed by attention, with the logarithm of each row's sum of exponentials."""
    return lambda c: f"mixed_values({', '.join([*c.a[:3], mask_in(c.a[3:-1])])}, {c.numbers[-1]}, {causal})"


def torch_attention_gradients(causal: bool) -> Callable[[Call], str]:
    """The gradients of queries, keys and values."""

    def spelling(c: Call) -> str:
        q, k, v, *mask, _, out, lse, g = c.a
        return f"attention_gradients({', '.join([q, k, v, mask_in(mask), out, lse, g])}, {c.numbers[-4]}, {causal})"

    return spelling


def mask_in(mask: Sequence[str]) -> str:
    """A mask, or None."""
    return mask[0] if mask else "None"


FUSED: dict[str, Callable[[Call], str]] = {
    "layer_norm": torch_layer_norm,
    "layer_norm_gradients": torch_layer_norm_gradients,
    "batch_norm": torch_batch_norm,
    "batch_norm_gradients": torch_batch_norm_gradients,
    "group_norm": torch_group_norm,
    "group_norm_gradients": torch_group_norm_gradients,
    "gelu": lambda c: f"(torch.nn.functional.gelu({c.a[0]}),)",
    "gelu_gradients": lambda c: f"(torch.ops.aten.gelu_backward({c.a[2]}, {c.a[0]}),)",
    "gelu_tanh": lambda c: f"(torch.nn.functional.gelu({c.a[0]}, approximate='tanh'),)",
    "gelu_tanh_gradients": lambda c: f"(torch.ops.aten.gelu_backward({c.a[2]}, {c.a[0]}, approximate='tanh'),)",
    "silu": lambda c: f"(torch.nn.functional.silu({c.a[0]}),)",
    "silu_gradients": lambda c: f"(torch.ops.aten.silu_backward({c.a[2]}, {c.a[0]}),)",
    "sigmoid": lambda c: f"(torch.special.expit({c.a[0]}),)",
    "sigmoid_gradients": lambda c: f"(torch.ops.aten.sigmoid_backward({c.a[2]}, {c.a[1]}),)",
    "tanh": lambda c: f"(torch.tanh({c.a[0]}),)",
    "tanh_gradients": lambda c: f"(torch.ops.aten.tanh_backward({c.a[2]}, {c.a[1]}),)",
    **{label: torch_attention(causal) for label, causal, _ in ATTENTIONS},
    **{f"{label}_gradients": torch_attention_gradients(causal) for label, causal, _ in ATTENTIONS},
}
"""The spelling of functions by the labels that fused ones have."""


def torch_called(c: Call) -> str:
    """A function of the library, or one of the file that computes a graph."""
    word = FUSED.get(c.p["label"])
    return f"{c.function('graph')}({', '.join(c.a)})" if word is None else word(c)
