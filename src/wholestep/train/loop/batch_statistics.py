"""The running statistics of batch norms, recomputed over the batches of a loader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from wholestep import random, tree
from wholestep.errors import DtypeError, ParameterError
from wholestep.frontend import outside
from wholestep.frontend.jit import jit
from wholestep.nn.keys import as_key, takes_key
from wholestep.nn.module import Module, copy_of
from wholestep.nn.norm_layers import BatchNorm
from wholestep.nn.parameters import buffers, join, named_modules
from wholestep.words import type_in_words

M = TypeVar("M", bound=Module)

STATISTICS = ("mean", "var")
"""The buffers of a batch norm."""


def update_batch_norm(
    model: M, batches: Iterable[Any], forward: Callable[..., Any] | None = None, *, key: Any = None
) -> M:
    """A copy of a model whose batch norms have the mean statistics of these batches, for averaged weights above all.

    Averages of parameters (`optim.ema`, `optim.average`) have other activations than the parameters with which the
    running statistics were gathered. Each batch goes through the model in training mode; `mean` and `var` of each
    `nn.BatchNorm` become the means over the batches of the batch's mean and unbiased variance, independent of its
    momentum and of their old values. All else stays, other buffers and the mode included. `forward(model, batch)` is
    the call, `model(batch)` by default, or `model(batch, key=key)` where `key` is given; where it has a keyword-only
    `key` each batch gets one of its own, made from `key`.

    Shapes: batches of arrays that `forward` takes; the model's arrays keep their shapes and dtypes.
    Raises: ParameterError for a model without batch norms, for no batches, and where a `key` is missing; DtypeError for
    a model that is no module and batches that are no iterable.
    Source: `torch.optim.swa_utils.update_bn`; Izmailov et al., "Averaging weights leads to wider optima", 2018.

    >>> import numpy as np, wholestep as ws
    >>> model = ws.nn.Sequential(ws.nn.BatchNorm(1), ws.nn.relu)
    >>> norm = ws.update_batch_norm(model, [np.array([[0.0], [2.0]], "f4"), np.array([[4.0], [8.0]], "f4")])[0]
    >>> norm.mean.tolist(), norm.var.tolist()
    ([3.5], [5.0])
    """
    if not isinstance(model, Module):
        raise DtypeError(f"update_batch_norm: {type_in_words(model)} is no nn.Module")
    probe = copy_of(model).train()
    norms = {path: part for path, part in named_modules(probe).items() if isinstance(part, BatchNorm)}
    if not norms:
        raise ParameterError(f"update_batch_norm: this {type(model).__name__} has no nn.BatchNorm in it")
    for norm in norms.values():
        norm.momentum = 1.0  # so that the statistics after a call are those of its batch
    wanted = [tree.access(path, name) for path in norms for name in STATISTICS]
    measured = jit(statistics_after(forward, wanted, key))
    sums: dict[str, Any] = dict.fromkeys(wanted, 0.0)
    count = 0
    for batch in checked_batches(batches):
        found = measured(probe, batch, np.uint32(count))
        sums = {path: total + np.asarray(found[path], np.float64) for path, total in sums.items()}
        count += 1
    if not count:
        raise ParameterError("update_batch_norm: there were no batches")
    held = buffers(model)
    return join(model, buffers=held | {path: (sums[path] / count).astype(held[path].dtype) for path in wanted})


def statistics_after(forward: Callable[..., Any] | None, wanted: Sequence[str], key: Any) -> Callable[..., Any]:
    """A function that gives the buffers of these paths after one batch, whose number it takes for the key."""
    keyed = key is not None if forward is None else takes_key(forward)
    if keyed and key is None:
        raise ParameterError("update_batch_norm: forward takes a key, and there is none", hint="pass key=0")
    call = forward or call_of_model

    def after(model: Any, batch: Any, number: Any) -> dict[str, Any]:
        if keyed:
            call(model, batch, key=random.fold_in(as_key(key), number))
        else:
            call(model, batch)
        held = buffers(model)
        return {path: held[path] for path in wanted}

    return after


def call_of_model(model: Any, batch: Any, **key: Any) -> Any:
    """The model's own call."""
    return model(batch, **key)


def checked_batches(batches: Iterable[Any]) -> Iterable[Any]:
    """The batches, one after the other; raises DtypeError for an argument that is no iterable of batches."""
    if isinstance(batches, np.ndarray) or outside.foreign(batches) or not isinstance(batches, Iterable):
        raise DtypeError(
            f"update_batch_norm: batches is {type_in_words(batches)}", hint="give a ws.Loader, or a list of batches"
        )
    return batches
