"""checkpoint: gradient checkpointing of a function, with a policy for the inner values that are kept."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from wholestep.boundary.public import boundary
from wholestep.errors import ParameterError
from wholestep.frontend.assignments import with_assigned, without_assigned
from wholestep.frontend.printing import with_said, without_said
from wholestep.frontend.source.entrance import ordinary
from wholestep.frontend.stated_rules import body_graph, name_of
from wholestep.frontend.tracing import Arguments, check_function, scope
from wholestep.ir.graph import Graph
from wholestep.primitives.checkpoint import Policy, checkpoint as checkpoint_primitive, opened

P = ParamSpec("P")
R = TypeVar("R")


def checkpoint(f: Callable[P, R], *, policy: Policy | Sequence[str] = None) -> Callable[P, R]:
    """Return f under gradient checkpointing: its inner values are recomputed in the backward pass instead of kept.

    `policy` is the rematerialization (remat) policy. The values are the same to the bit, and so are gradients, except
    that the cotangents of an argument that f uses several times are added up before any from outside f. Memory falls
    from all inner values to the arguments and the values that `policy` keeps:

    - None: nothing;
    - "contractions": the results of products of matrices and other contractions, which cost the most to recompute;
    - "everything": all residuals of the backward pass, as without a checkpoint;
    - labels, one or several in a tuple or list: the values that f names with `ws.capture(label, x)`;
    - a function `policy(operation, type, params)`, which says for an operation of the program, by its name, the type of
      its result and its parameters, whether the result is kept.

    A loop, a branch or a custom rule inside f is one operation. Random numbers are replayed, since they are functions
    of their key. Buffers of modules that f assigns are assigned as without a checkpoint. Works under every transform.

    Shapes: those of f.
    Raises: ParameterError for another policy, and the exceptions of f.
    Source: Chen et al., "Training deep nets with sublinear memory cost", 2016.

    >>> import numpy as np, wholestep as ws
    >>> ws.grad(ws.checkpoint(lambda x: np.sin(np.sin(x))))(0.0)
    np.float64(1.0)
    >>> ws.grad(ws.checkpoint(lambda x: np.exp(ws.capture("h", np.sin(x))), policy=["h"]))(0.0)
    np.float64(1.0)
    """
    check_function(f, "checkpoint")
    kept = {} if policy is None else {"policy": checked_policy(policy)}

    @boundary
    @functools.wraps(f)
    def checkpointed(*args: P.args, **kwargs: P.kwargs) -> R:
        with scope("checkpoint") as work:
            call = Arguments((args, kwargs))
            inside = with_said(with_assigned(ordinary(f), (args, kwargs)))
            traced = body_graph(call, inside, "checkpoint")
            if isinstance(policy, tuple | list):
                check_policy_labels(traced.graph, policy, name_of(f))
            outs = checkpoint_primitive(*call.values, *traced.captured, graph=traced.graph, **kept)
            left = work.leave(without_said(traced.arrays(outs)))
        made: R = without_assigned(left)
        return made

    return checkpointed


def checked_policy(policy: Any) -> Policy:
    """The policy of a checkpoint; raises ParameterError for anything else."""
    if callable(policy) or policy in ("contractions", "everything"):
        known: Policy = policy
        return known
    if isinstance(policy, tuple | list) and policy and all(isinstance(label, str) for label in policy):
        return tuple(policy)
    raise ParameterError(
        f"checkpoint: policy is {policy!r}",
        hint='"contractions", "everything", labels as in ["h"], or policy(operation, type, params) -> bool',
    )


def check_policy_labels(graph: Graph, labels: Sequence[str], name: str) -> None:
    """Raise ParameterError for a label under which a checkpointed function names nothing."""
    known = {node.params["label"] for node in opened(graph).nodes if node.op.name == "capture"}
    for label in labels:
        if label not in known:
            raise ParameterError(
                f"checkpoint: {name} names no value {label!r}",
                hint=f"it names {', '.join(sorted(known))}"
                if known
                else "name one with ws.capture(label, x), outside of loops and branches",
            )
