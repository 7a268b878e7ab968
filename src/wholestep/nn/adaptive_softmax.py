"""Softmax over many classes in clusters: the frequent ones in a head, the rare ones behind smaller projections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.boundary.counts import is_integer
from wholestep.errors import ParameterError
from wholestep.ir.graph import NDArray
from wholestep.nn.containers import Sequential
from wholestep.nn.cross_entropies import checked_index, cross_entropy, index_called
from wholestep.nn.exponentials import integer_index, log_softmax
from wholestep.nn.keys import keys_from
from wholestep.nn.linears import Linear, sized
from wholestep.nn.module import Module


class AdaptiveLogSoftmax(Module):
    """The logarithms of the probabilities of labels whose classes are sorted by frequency, the most frequent first.

    Classes below the first of `cutoffs` are scored by the head, and so is each cluster between one cutoff and the next;
    the classes of the first cluster are scored after a projection to `inputs / shrink` numbers, those of the next after
    one to `inputs / shrink**2`, and so on. The loss of a batch is `-np.mean(layer(x, labels))`. `log_probs` returns the
    logarithms for all classes, `predict` the likeliest class. `key` is a seed or a key; `head_bias` gives the head a
    bias, and `dtype` is that of the parameters.

    Parameters are those of torch.nn.AdaptiveLogSoftmaxWithLoss. Every row goes through every cluster, since the number
    of rows with labels in a cluster is not known at compile time.

    Shapes: x [..., inputs] and labels integers [...]; [...]. `log_probs` takes x alone and gives [..., classes],
    `predict` gives integers [...].
    Raises: ParameterError for sizes that are not positive integers and for cutoffs that do not rise from 1 to less than
    `classes`; BoundsError for a label outside of the classes, in a compiled program too; as `cross_entropy` does.
    Source: Grave et al., "Efficient softmax approximation for GPUs", 2017.

    >>> import numpy as np, wholestep as ws
    >>> layer = ws.nn.AdaptiveLogSoftmax(16, 1000, [20, 100], key=0)
    >>> x, labels = np.ones((5, 16), np.float32), np.array([3, 19, 20, 99, 999])
    >>> layer(x, labels).shape, bool(np.allclose(layer(x, labels), layer.log_probs(x)[np.arange(5), labels]))
    ((5,), True)
    """

    _draws = True

    def __init__(
        self,
        inputs: int,
        classes: int,
        cutoffs: Sequence[int],
        *,
        key: Any = None,
        shrink: float = 4.0,
        head_bias: bool = False,
        dtype: Any = np.float32,
    ) -> None:
        sized("AdaptiveLogSoftmax", inputs=inputs, classes=classes)
        bounds = (0, *cutoffs, classes)
        if len(bounds) < 3 or not all(map(is_integer, cutoffs)) or not all(np.diff(bounds) > 0):
            raise ParameterError(
                f"AdaptiveLogSoftmax: cutoffs are {list(cutoffs)}; they must be integers that rise from 1 to less than "
                f"{classes}"
            )
        if not shrink > 0:
            raise ParameterError(f"AdaptiveLogSoftmax: shrink is {shrink}; it must be positive")
        keys = keys_from(key, 2 * len(cutoffs) + 1)
        self.bounds = bounds[1:]
        self.head = Linear(inputs, bounds[1] + len(cutoffs), key=next(keys), bias=head_bias, dtype=dtype)
        self.tail = []
        for i in range(len(cutoffs)):
            width, size = int(inputs // shrink ** (i + 1)), self.bounds[i + 1] - self.bounds[i]
            if width < 1:
                raise ParameterError(
                    f"AdaptiveLogSoftmax: cluster {i} would have no numbers: {inputs} inputs over {shrink:g}**{i + 1}",
                    hint="a smaller shrink, or fewer cutoffs",
                )
            narrow = Linear(inputs, width, key=next(keys), bias=False, dtype=dtype)
            self.tail.append(Sequential(narrow, Linear(width, size, key=next(keys), bias=False, dtype=dtype)))

    def __call__(self, x: Any, labels: Any) -> NDArray:
        of_head, of_tail = self.places(labels)
        losses = cross_entropy(self.head(x), of_head, reduction="none")
        for i, tail in enumerate(self.tail):
            inside = of_head == self.bounds[0] + i
            below = cross_entropy(tail(x), wnp.where(inside, of_tail, 0), reduction="none")
            losses = losses + wnp.where(inside, below, 0)
        return -losses

    def places(self, labels: Any) -> tuple[Any, Any]:
        """For each label its place in the head, that of its cluster for a rare one, and its place in the cluster."""
        name, classes = "AdaptiveLogSoftmax", np.arange(self.bounds[-1])
        cluster = np.searchsorted(self.bounds, classes, side="right")
        head = np.where(cluster == 0, classes, self.bounds[0] + cluster - 1)
        tail = classes - np.array((0, *self.bounds))[cluster]
        at = checked_index(name, integer_index(name, labels), len(classes))
        with index_called(f"{name}: label"):
            return wnp.take(wnp.asarray(head), at), wnp.take(wnp.asarray(tail), at)

    def log_probs(self, x: Any) -> NDArray:
        """The logarithms of the probabilities of all classes: [..., inputs] -> [..., classes]."""
        head, first = log_softmax(self.head(x)), self.bounds[0]
        tails = [log_softmax(tail(x)) + head[..., first + i, None] for i, tail in enumerate(self.tail)]
        joined: Any = wnp.concatenate([head[..., :first], *tails], axis=-1)
        return joined

    def predict(self, x: Any) -> NDArray:
        """The likeliest class: [..., inputs] -> [...]."""
        return wnp.argmax(self.log_probs(x), axis=-1)
