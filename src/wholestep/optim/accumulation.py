"""Gradient accumulation: one update with the gradients of several batches, as if they were one batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, field
from typing import Any

import numpy as np

from wholestep import numpy as wnp, tree
from wholestep.errors import DtypeError, ParameterError
from wholestep.frontend.control import cond
from wholestep.numpy.working_precision import working_array
from wholestep.optim.averaging import Wrapper
from wholestep.optim.hyper import number_in
from wholestep.optim.protocol import (
    call_update,
    required_extra,
    scalar_like,
    working_zeros,
)
from wholestep.words import type_in_words


class Accumulate(Wrapper):
    """Update once every `steps` calls, with the mean of their gradients, as one batch of all their samples would.

    A mean over batches is the mean over their samples only where batches have equal sizes. For losses that are means
    over tokens, or batches of different sizes, the loss gives with `has_aux=True` the number of samples of its mean,
    and `weight` names that number in aux, a dictionary; a window with a total weight of 0 makes no update. At the end
    of the data a window may be open: `step.flush()`, or `optimizer.flush(state, params)`, closes it, and
    `step.set(steps=1)` makes every following call close it at once; nothing is compiled anew. The optimizer inside, its
    schedule and its count see only whole windows; it gets the mean loss, and no objective.

    Shapes: trees of floating or complex arrays; the state has an array like each, beside that of the optimizer.
    Raises: ParameterError for fewer steps than one, or where aux lacks the weight; DtypeError for an argument that is
    no optimizer.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.accumulate(ws.optim.sgd(1.0), 2, weight="rows"), np.zeros(1)
    >>> state = optimizer.init(p)
    >>> for gradient, rows in ((1.0, 3), (5.0, 1)):
    ...     p, state = optimizer.update(np.array([gradient]), state, p, aux={"rows": rows})
    >>> p.tolist()
    [-2.0]
    """

    optimizer: Any
    steps: float = field(metadata=number_in(1.0))
    _: KW_ONLY
    weight: str | None = None

    def resolved(self) -> Any:
        """The same object; raises DtypeError for an argument that is no optimizer, or a weight that is no name."""
        super().resolved()
        if self.weight is not None and not isinstance(self.weight, str):
            raise DtypeError(f"accumulate: weight is {type_in_words(self.weight)}, not the name of a number in aux")
        return self

    def init(self, params: Any) -> Any:
        """The optimizer's state and an empty window."""
        return {"optimizer": self.optimizer.init(params), **empty_window(params)}

    def update(self, grads: Any, state: Any, params: Any, *, loss: Any = None, aux: Any = None) -> tuple[Any, Any]:
        """The parameters as they are, or, at the end of a window, new ones; and a new state."""
        weight = self.weight_of(aux)
        window = {
            "count": state["count"] + 1,
            "gradient": tree.map(lambda a, g: a + scalar_like(weight, a) * working_array(g), state["gradient"], grads),
            "weight": state["weight"] + weight,
            "loss": state["loss"] + (0.0 if loss is None else weight * wnp.asarray(loss).astype(np.float64)),
        }
        state = {"optimizer": state["optimizer"], **window}
        return self.moved(window["count"] >= self.steps, state, params, loss is not None)

    def flush(self, state: Any, params: Any) -> tuple[Any, Any]:
        """An update with the gradients of an open window, if there are any, for the end of the data.

        The optimizer gets the mean loss of the window; a window that was never given a loss has a loss of 0.
        """
        return self.moved(state["count"] > 0, state, params, True)

    def moved(self, full: Any, state: Any, params: Any, lossy: bool) -> tuple[Any, Any]:
        """New parameters and an empty window, if the window is full and its total weight is not 0."""

        def apply(state: Any, params: Any) -> tuple[Any, Any]:
            total = state["weight"]
            mean = tree.map(lambda a: a / scalar_like(total, a), state["gradient"])
            given = {"loss": state["loss"] / total} if lossy else {}
            new, inner = call_update(self.optimizer, mean, state["optimizer"], params, given)
            return new, {"optimizer": inner, **empty_window(params)}

        def wait(state: Any, params: Any) -> tuple[Any, Any]:
            return params, state

        made: tuple[Any, Any] = cond(full & (state["weight"] > 0), apply, wait, state, tree.map(wnp.asarray, params))
        return made

    def weight_of(self, aux: Any) -> Any:
        """The weight of this batch: 1, or the number that the loss returns in aux."""
        if self.weight is None:
            return np.ones(())
        given = required_extra("accumulate", "aux", {"aux": aux})
        if not isinstance(given, Mapping) or self.weight not in given:
            raise ParameterError(
                f"accumulate: the loss says nothing of the weight {self.weight!r}",
                hint=f"with has_aux=True it returns (loss, {{{self.weight!r}: the number of samples in the mean}})",
            )
        return wnp.asarray(given[self.weight]).astype(np.float64)


def empty_window(params: Any) -> dict[str, Any]:
    """An empty window."""
    none = np.float64(0)
    return {"count": np.int64(0), "gradient": tree.map(working_zeros, params), "weight": none, "loss": none}
