"""Calls whose types a type checker has to find as they stand here, read by mypy and never run."""

from collections.abc import Callable
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

import wholestep as ws
from wholestep import nn
from wholestep.frontend.gradients import Intermediate
from wholestep.tree import Tree

Array = npt.NDArray[Any]
Weights = dict[str, Array]


def loss(weights: Weights, x: Array, *, scale: float = 1.0) -> Array:
    return np.asarray(scale * np.sum(x @ weights["w"]))


def with_aux(weights: Weights, x: Array) -> tuple[Array, list[str]]:
    return np.sum(x @ weights["w"]), ["aux"]


def of_model(model: nn.MLP, x: Array) -> Array:
    return np.asarray(model(x))


def opaque(*args: Any, **kwargs: Any) -> Any:
    return args[0]


def accepted(*functions: Callable[..., Any]) -> None:
    """A function for lambdas whose parameters mypy does not infer."""


w: Weights = {"w": np.ones(3)}
x: Array = np.ones((2, 3))
model = nn.MLP([3, 1], key=0)


def gradients() -> None:
    assert_type(ws.grad(loss)(w, x, scale=2.0), Weights)
    assert_type(ws.grad(of_model)(model, x), nn.MLP)
    assert_type(ws.grad(loss, (0, 1))(weights=w, x=x), Tree)
    assert_type(ws.grad(loss, 1)(w, x), Tree)
    assert_type(ws.grad(with_aux, has_aux=True)(w, x), tuple[Weights, list[str]])
    assert_type(ws.grad(with_aux, 1, has_aux=True)(w, x), tuple[Tree, list[str]])
    assert_type(ws.value_and_grad(loss)(w, x, scale=2.0), tuple[Array, Weights])
    assert_type(ws.value_and_grad(loss, (0, 1))(w, x), tuple[Array, Tree])
    assert_type(ws.value_and_grad(with_aux, has_aux=True)(w, x), tuple[tuple[Array, list[str]], Weights])
    assert_type(ws.trace_gradients(loss)(w, x), tuple[Array, Weights, list[Intermediate]])
    assert_type(ws.frontier_grad(loss, "h")(w, x, scale=1.0), tuple[Array, dict[str, Tree]])
    assert_type(ws.grad(np.sin)(1.0), Array)
    assert_type(ws.elementwise_grad(np.sin)(x), Array)
    assert_type(ws.elementwise_grad(loss)(w, x, scale=1.0), Array)
    assert_type(ws.grad(ws.grad(lambda x: x**3))(2.0), Any)
    accepted(ws.grad(lambda a, b: a * b), ws.hessian(lambda a, b: a * b), ws.vmap(lambda a, b: a * b))
    assert_type(ws.grad(opaque)(1.0, 2, flag=True), Any)


def wrong_calls() -> None:
    """Calls that a type checker must refuse: an accepted call makes its `type: ignore` unused, which is an error."""
    ws.grad(loss)(w)  # type: ignore[call-arg]
    ws.grad(loss)(w, x, size=2)  # type: ignore[call-arg]
    ws.grad(loss)(x, x)  # type: ignore[arg-type]
    ws.value_and_grad(loss)(w, x, scale="large")  # type: ignore[arg-type]
    ws.jacobian(loss)(w)  # type: ignore[call-arg]
    ws.jit(loss)(w, x, size=2)  # type: ignore[call-arg]
    ws.autocast(loss)(w)  # type: ignore[call-arg]


def derivatives() -> None:
    assert_type(ws.jacobian(loss)(w, x, scale=1.0), Tree)
    assert_type(ws.jacfwd(with_aux, has_aux=True)(w, x), tuple[Tree, list[str]])
    assert_type(ws.hessian(loss)(w, x), Tree)
    assert_type(ws.jvp(loss, (w, x), (w, x)), tuple[Array, Array])
    out, pullback = ws.vjp(loss, w, x)
    assert_type(out, Array)
    assert_type(pullback(out), tuple[Tree, ...])
    assert_type(ws.linearize(loss, w, x)[0], Array)
    assert_type(ws.linearize(loss, w, x)[1](w, x), Array)
    assert_type(ws.hvp(loss, (w,), (w,)), Weights)
    assert_type(ws.vjp(with_aux, w, x, has_aux=True)[2], list[str])


def programs() -> None:
    assert_type(ws.jit(loss)(w, x, scale=2.0), Array)
    assert_type(ws.jit(ws.value_and_grad(loss))(w, x), tuple[Array, Weights])
    assert_type(ws.checkpoint(loss)(w, x, scale=1.0), Array)
    assert_type(ws.autocast(loss)(w, x, scale=1.0), Array)
    assert_type(ws.vmap(loss, in_axes=(None, 0))(w, x), Array)
    assert_type(ws.vmap(ws.grad(loss), in_axes=(None, 0))(w, x), Weights)
    assert_type(ws.linear_transpose(loss, w, x)(x), tuple[Tree, ...])
    assert_type(ws.closure_convert(loss, w, x), tuple[Callable[..., Array], list[Array]])
    assert_type(ws.eval_shape(loss, w, x), Tree)
    assert_type(ws.scan(lambda h, y: (h, y), x, x)[0], Array)


def models() -> None:
    assert_type(nn.initialized(model, key=0), nn.MLP)
    assert_type(nn.initialized([nn.Linear(3, 2)], key=0), list[nn.Linear])
    assert_type(nn.Linear(3, 2)(x), Array)
    assert_type(nn.named_parameters(model), dict[str, Array])
    assert_type(nn.split(model), tuple[dict[str, Array], dict[str, Array]])
    assert_type(nn.top_k(x, 2), tuple[Array, Array])
