"""Functions and layers over one, two or three spatial axes: one definition, documented for images, makes all three."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from wholestep.boundary.answers import answered

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=type)

WORDS = {
    1: ("1d", "sequences", "length", "i", "i"),
    2: ("2d", "images", "height, width", "i, j", "i * j"),
    3: ("3d", "volumes", "depth, height, width", "i, j, k", "i * j * k"),
}
"""Words of documentation by the number of spatial axes."""


def described_over(n: int, text: str) -> str:
    """A text about images as one about n spatial axes; a size that stands there twice in a row is one for each axis.

    >>> described_over(3, "`conv2d` of images [height, width]: (1, 4, 5, 5)")
    '`conv3d` of volumes [depth, height, width]: (1, 4, 5, 5, 5)'
    """
    for two, other in zip(WORDS[2], WORDS[n], strict=True):
        text = text.replace(two, other)
    return re.sub(r"\b(\d+), \1\b", lambda size: ", ".join([size[1]] * n), text)


def by_rank(
    f: Callable[Concatenate[str, int, P], T], one: str, three: str
) -> tuple[Callable[P, T], Callable[P, T], Callable[P, T]]:
    """`f1d`, `f2d` and `f3d` for a function `f` of a name, a number of axes and the parameters of these.

    The documentation of `f` is that of `f2d`; `one` and `three` are the examples of the others.
    """
    text = inspect.getdoc(f) or ""
    prose = text.partition(">>> ")[0]
    first, last = [described_over(n, prose) + inspect.cleandoc(example) for n, example in ((1, one), (3, three))]
    return of_rank(1, f, first), of_rank(2, f, text), of_rank(3, f, last)


def of_rank(n: int, f: Callable[Concatenate[str, int, P], T], text: str) -> Callable[P, T]:
    """A public function over n axes, with its own name and documentation."""

    def made(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return f(name, n, *args, **kwargs)
        except TypeError as error:
            known = answered(made, args, kwargs, error)
            if known is None:
                raise
            raise known from None

    signature, function = inspect.signature(f), made
    function.__name__ = function.__qualname__ = name = f"{f.__name__}{n}d"
    function.__module__, function.__doc__ = f.__module__, text
    vars(function)["__signature__"] = signature.replace(parameters=list(signature.parameters.values())[2:])
    return made


def like_images(n: int, images: Any) -> Callable[[C], C]:
    """Document a layer over n axes as the one over images is."""

    def documented(cls: C) -> C:
        cls.__doc__ = images.__doc__ and described_over(n, images.__doc__)
        return cls

    return documented
