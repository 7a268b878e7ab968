"""The first step of an example, which runs until there, so that its own program and data are timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

import wholestep as ws


class FirstCallError(Exception):
    """The end of an example's run: the first call of the watched callable, with its arguments."""

    def __init__(self, called: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__("the first call")
        self.called, self.args_given, self.kwargs_given = called, args, kwargs


class Watched:
    """A callable as it is, except that its call ends the run of the example."""

    def __init__(self, called: Any) -> None:
        self.called = called

    def __getattr__(self, name: str) -> Any:
        return getattr(self.called, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise FirstCallError(self.called, args, kwargs)


@contextmanager
def replaced(place: Any, name: str, by: Any) -> Iterator[None]:
    """Another attribute for a while."""
    kept = getattr(place, name)
    setattr(place, name, by)
    try:
        yield
    finally:
        setattr(place, name, kept)


class Given(NamedTuple):
    """The first call of an example's function."""

    called: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def first_call(main: Callable[[], Any], place: Any, name: str, wrap: Callable[..., Any]) -> Given:
    """The first call of the result of `wrap`, which replaces an attribute while an example runs."""
    with replaced(place, name, wrap):
        try:
            main()
        except FirstCallError as end:
            return Given(end.called, end.args_given, end.kwargs_given)
    raise RuntimeError(f"the example does not call {name}")


class Training(NamedTuple):
    """A training as an example begins it: its steps, their parameters by path, and the batch of the first."""

    steps: list[Any]
    params: list[dict[str, np.ndarray[Any, Any]]]
    batch: Any


def by_path(tree: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Copies of a tree's arrays by their paths."""
    return {path: np.array(x) for path, x in zip(ws.tree.paths(tree), ws.tree.leaves(tree), strict=True)}


def training(example: Any) -> Training:
    """The training of an example, at its first step."""
    compiled, steps, params = ws.compile, [], []

    def watched(loss: Any, model: Any, **options: Any) -> Watched:
        params.append(by_path(model))
        steps.append(compiled(loss, model, **options))
        return Watched(steps[-1])

    given = first_call(example.main, ws, "compile", watched)
    return Training(steps, params, given.args[0])


def jitted(example: Any) -> Given:
    """The function that an example compiles with `ws.jit` and calls, and its arguments."""
    compiled = ws.jit
    return first_call(example.main, ws, "jit", lambda f, **options: Watched(compiled(f, **options)))
