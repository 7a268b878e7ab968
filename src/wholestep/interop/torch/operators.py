"""The table of all operators of PyTorch that are covered, and of the functions on sizes that its programs call."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from wholestep import numpy as wnp
from wholestep.frontend.control import cond, scan, while_loop
from wholestep.interop.handlers import Handlers
from wholestep.interop.torch.contractions import CONTRACTIONS
from wholestep.interop.torch.draws import DRAWS
from wholestep.interop.torch.elementwise import ELEMENTWISE
from wholestep.interop.torch.indexing import INDEXING
from wholestep.interop.torch.layers import LAYERS
from wholestep.interop.torch.movement import MOVEMENT
from wholestep.interop.torch.quantized import QUANTIZED
from wholestep.interop.torch.recurrent import RECURRENT
from wholestep.interop.torch.reductions import REDUCTIONS
from wholestep.interop.torch.resampling import RESAMPLING

CONTROL = Handlers()
entry = CONTROL.entry

SIZES: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in "add sub mul floordiv mod neg pow eq ne lt le gt ge and_ or_".split()},
    "truediv": operator.truediv,
    "not_": operator.not_,
    "getitem": operator.getitem,
    "sym_max": max,
    "sym_min": min,
    "sym_float": float,
    "sym_int": int,
    "sym_ite": lambda condition, x, y: x if condition else y,
    "sym_not": operator.not_,
    "sym_sum": sum,
    "trunc": math.trunc,
    "ceil": math.ceil,
    "floor": math.floor,
    "_sym_sqrt": math.sqrt,
}
"""Functions of Python on sizes and tuples."""

CONTROL.update(
    {
        "sym_size": lambda x, axis: x.shape[axis],
        "sym_stride": lambda x, axis: math.prod(x.shape[axis + 1 :]),
        "wrap_with_set_grad_enabled": lambda enabled, body, *xs: body(*xs),
        "wrap_with_autocast": lambda kind, dtype, enabled, cached, body, *xs: body(*xs),
        "while_loop": lambda test, body, carried, extra=(): list(
            while_loop(lambda c: test(*c, *extra)[0], lambda c: tuple(body(*c, *extra)), tuple(carried))
        ),
        "item": lambda x: x,
        "_local_scalar_dense": lambda x: wnp.asarray(x).reshape(()),
    }
)


@entry("cond")
def choose(condition: Any, yes: Any, no: Any, operands: Any = ()) -> Any:
    return cond(condition, lambda *xs: tuple(yes(*xs)), lambda *xs: tuple(no(*xs)), *operands)


@entry("scan")
def scanned(body: Any, carried: Any, xs: Any, extra: Any = ()) -> list[Any]:
    n = len(carried)

    def step(carry: Any, rows: Any) -> tuple[Any, Any]:
        found = tuple(body(*carry, *rows, *extra))
        return found[:n], found[n:]

    last, rows = scan(step, tuple(carried), tuple(xs))
    return [*last, *(rows or ())]


@entry("map_impl")
def mapped(body: Any, xs: Any, extra: Any = ()) -> list[Any]:
    return scanned(body, (), xs, extra)


CHECKS = (
    "_assert_async",
    "_assert_scalar",
    "_assert_tensor_metadata",
    "sym_constrain_range",
    "sym_constrain_range_for_size",
    "_functional_assert_async",
    "_check_is_size",
)
"""Operators that only check facts that PyTorch has established already."""

CONTROL.update(dict.fromkeys(CHECKS, lambda *given, **options: None))

OPERATORS: dict[str, Callable[..., Any]] = {
    **ELEMENTWISE,
    **MOVEMENT,
    **INDEXING,
    **REDUCTIONS,
    **CONTRACTIONS,
    **LAYERS,
    **RESAMPLING,
    **RECURRENT,
    **QUANTIZED,
    **CONTROL,
    **DRAWS,
}
KEEP = (
    "detach.default",
    "scaled_dot_product_attention.default",
    "_safe_softmax.default",
    "linear.default",
    "matmul.default",
    "einsum.default",
    "dropout.default",
    "feature_dropout.default",
    "alpha_dropout.default",
    "rrelu.default",
    "multilabel_margin_loss.default",  # PyTorch's parts of it take the numbers after the first negative one for class 0
    "lstm.input",
    "gru.input",
    "rnn_tanh.input",
    "rnn_relu.input",
    "upsample_nearest1d.vec",
    "upsample_nearest2d.vec",
    "upsample_nearest3d.vec",
    "upsample_linear1d.vec",
    "upsample_bilinear2d.vec",
    "upsample_trilinear3d.vec",
    "upsample_bicubic2d.vec",
    "pixel_shuffle.default",
    "pixel_unshuffle.default",
    "rms_norm.default",
    # PyTorch's parts of these have slopes of nan where it has none itself: at large numbers, at 0, and of equal ones
    "softplus.default",
    "mish.default",
    "celu.default",
    "logit.default",
    "sinc.default",
    "special_log_ndtr.default",
    "std.correction",
    "std_mean.correction",
    "binary_cross_entropy.default",
    "im2col.default",
    "adaptive_avg_pool1d.default",
    "adaptive_avg_pool2d.default",
    "adaptive_avg_pool3d.default",
)
"""Operators that are handled whole, where PyTorch would take them apart."""
CALLED_WITH_KEY = frozenset(
    {
        *DRAWS,
        "native_dropout",
        "dropout",
        "feature_dropout",
        "alpha_dropout",
        "rrelu",
        "lstm",
        "gru",
        "rnn_tanh",
        "rnn_relu",
    }
    | {"scaled_dot_product_attention"}
)
"""Operators that draw random numbers, or may."""
