"""Rprop: steps whose size follows the sign of the gradient alone, for gradients of whole data sets."""

from __future__ import annotations

from dataclasses import KW_ONLY, field
from typing import Any

from wholestep import dtypes, numpy as wnp
from wholestep.errors import ParameterError, UnsupportedError
from wholestep.optim.hyper import number_in, rate_at
from wholestep.optim.leafwise import Leafwise, increment_count
from wholestep.optim.protocol import real_zeros, scalar_like, working_zeros


class Rprop(Leafwise):
    """Rprop: each element has a step size, which grows while its gradient keeps its sign and shrinks where it changes.

    An element whose gradient changes its sign is not updated. `lr` is the size of the first step; later changes of it
    have no effect. A size grows by the factor `grow`, shrinks by `shrink`, and stays between `least` and `most`.
    Formulas and defaults are those of torch.optim.Rprop.

    Shapes: trees of real floating arrays; the state has two arrays like each.
    Raises: ParameterError for a factor out of its range and for sizes that are not in order, UnsupportedError for
    complex parameters; as `sgd` does.
    Source: Riedmiller and Braun, "A direct adaptive method for faster backpropagation learning: the RPROP algorithm",
    1993.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.rprop(0.1), np.ones(1)
    >>> p, state = optimizer.update(np.full(1, 2.0), optimizer.init(p), p)
    >>> p.round(6).tolist(), optimizer.update(np.full(1, 3.0), state, p)[0].round(6).tolist()
    ([0.9], [0.78])
    """

    shrink: float = field(default=0.5, metadata=number_in(0.0, 1.0, strictly=True))
    grow: float = field(default=1.2, metadata=number_in(1.0, strictly=True))
    _: KW_ONLY
    least: float = field(default=1e-6, metadata=number_in(strictly=True))
    most: float = field(default=50.0, metadata=number_in(strictly=True))

    def agree(self) -> None:
        """Raise ParameterError where the least step is larger than the largest."""
        if self.least > self.most:
            raise ParameterError(f"rprop: least is {self.least:g} and most {self.most:g}")

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(the size of the first step, True in the first step)."""
        return (rate_at(self.lr, common["count"]), common["count"] == 0), increment_count(common)

    def kept(self, p: Any) -> dict[str, Any]:
        """The previous gradient, 0 where its sign changed, and the sizes of steps."""
        if dtypes.is_complex(wnp.asarray(p).dtype):
            raise UnsupportedError("rprop: complex parameters are not covered", hint="give real and imaginary parts")
        return {"before": working_zeros(p), "size": real_zeros(p)}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        rate, first = numbers
        agreement = wnp.sign(g) * wnp.sign(kept["before"])
        size = wnp.where(first, scalar_like(rate, p), kept["size"])
        factor = wnp.where(agreement > 0, scalar_like(self.grow, p), scalar_like(self.shrink, p))
        size = wnp.where(agreement == 0, size, size * factor)
        size = wnp.clip(size, scalar_like(self.least, p), scalar_like(self.most, p))
        g = wnp.where(agreement < 0, 0, g)
        return p - wnp.sign(g) * size, {"before": g, "size": size}
