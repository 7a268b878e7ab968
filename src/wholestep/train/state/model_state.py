"""Models in place of parameters: their arrays become state by path, and the loss gets the model with these arrays."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from wholestep import tree
from wholestep.errors import LostAssignmentWarning, ParameterError, UnsupportedError, warn
from wholestep.frontend.array import Array
from wholestep.frontend.assignments import FieldAssignment, watching_assignments
from wholestep.frontend.frozen import Frozen
from wholestep.frontend.tracing import constants_read
from wholestep.nn.ambient import Weights
from wholestep.nn.annotations import BUFFER
from wholestep.nn.module import Module
from wholestep.nn.parameters import by_path, ordered
from wholestep.nn.traversal import ModelWalk, Rebuilt, Reread
from wholestep.words import first_few

SAME: Any = object()
"""The default of options that keep the present value."""


class ModelStructure:
    """The structure of a module, or of a tree with modules or frozen arrays in it, without its arrays."""

    def __init__(self, walk: ModelWalk, ambient: Sequence[Weights] = ()) -> None:
        self.ambient = ambient
        """The weights of `ws.params` in the model, which the loss may read from its closure."""
        self.parameters = [place._replace(value=None) for place in walk.parameters]
        self.kept = [place._replace(value=None) for place in walk.kept]
        self.structure = walk.outline()

    def filled(self, params: Mapping[str, Any], buffers: Mapping[str, Any] | None) -> Any:
        """The model with these arrays in it."""
        kept = ordered(self.kept, buffers or {}, "buffers")
        return Rebuilt(self.structure, ordered(self.parameters, params, "parameters"), kept).root

    def assigned(
        self, model: Any, given: Mapping[str, Any], seen: Sequence[FieldAssignment] = ()
    ) -> dict[str, Any] | None:
        """The buffers of a model after a forward pass; raises UnsupportedError where the pass changed other parts."""
        now = Reread(self.structure, model)
        if not now.same:
            raise changed_error("a field or a container of the model")
        for places, values in ((self.parameters, now.parameters), (self.kept, now.kept)):
            for i, place in enumerate(places):
                if place.kind != BUFFER and values[i] is not given[place.path]:
                    raise changed_error(place.path)
                check_stays(place.path, values[i], seen)
        return {place.path: now.kept[i] for i, place in enumerate(self.kept)} or None

    def loss(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """`f(model, batch)` as a function of params, buffers and batch, which returns the new buffers as well."""

        @functools.wraps(f)
        def loss(params: Any, buffers: Any, batch: Any, **keys: Any) -> Any:
            model, given = self.filled(params, buffers), {**params, **(buffers or {})}
            with self.bound(model), watching_assignments() as seen:
                out = f(model, batch, **keys)
                around = self.assigned(self.around(model), given) if self.ambient else None
            own = self.assigned(model, given, seen) or {}
            own = {path: around[path] if around and x is given[path] else x for path, x in own.items()}
            warn_of_lost({path: x for path, x in own.items() if x is given[path]}, seen)
            return out, own or None

        return loss

    @contextmanager
    def bound(self, model: Any) -> Iterator[None]:
        """A context in which the ambient weights of the original model are those of a filled one."""
        with ExitStack() as stack:
            for weights, filled in zip(self.ambient, ambient_of(model), strict=True):
                stack.enter_context(weights._bound_to(filled))
            yield

    def around(self, model: Any) -> Any:
        """A filled model with the original ambient weights in place of the filled ones."""
        leaves, structure = tree.flatten(model, is_model)
        waiting = iter(self.ambient)
        return tree.unflatten(structure, [next(waiting) if isinstance(x, Weights) else x for x in leaves])

    def function(self, f: Callable[..., Any], training: bool) -> Callable[..., Any]:
        """`f(model, batch)`, with or without a key, as a function of params, buffers (if there are any) and batch."""

        @functools.wraps(f)
        def function(params: Any, *given: Any, **keys: Any) -> Any:
            buffers, batch = given if self.kept else ({}, *given)
            model = in_mode(self.filled(params, buffers), training)
            with self.bound(model):
                return f(model, batch, **keys)

        return function


def check_predicts(model: ModelStructure | None) -> None:
    """Raise UnsupportedError for a step without a single module that can be called."""
    if model is None or "__call__" not in dir(getattr(model.structure, "cls", None)):
        of = "plain parameters" if model is None else "a tree, or of a module without __call__"
        raise UnsupportedError(
            f"step.predict: the step was compiled of {of}, and knows how to compute the loss alone",
            hint="predict = step.attach(f) with f(params, batch), or f(model, batch), is called with a batch",
        )
    cls = model.structure.cls
    parameters = inspect.signature(cls.__call__).parameters.values()
    needed = [p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if len(needed) > 2:
        raise UnsupportedError(
            f"step.predict: it calls the model with one argument, and {cls.__name__} needs {', '.join(needed[2:])} too",
            hint="a default, such as key=None, or step.attach(f) with an f(model, batch) that calls the model",
        )


def split_model(
    params: Any, buffers: Any, before: ModelStructure | None = None
) -> tuple[ModelStructure | None, Any, Any]:
    """Split `params` into (model, parameters, buffers); the model is None if `params` holds no modules.

    A dictionary of the parameters by path of the model `before` belongs to that model. Raises ParameterError for
    buffers beside a model.
    """
    params, buffers = arrays_read(params), arrays_read(buffers)
    leaves, _ = tree.flatten(params, is_model)
    if any(is_model(x) for x in leaves):
        if buffers is not None and buffers is not SAME:
            raise ParameterError(
                "compile: a model keeps its buffers itself, and buffers= were given too",
                hint="mark them with nn.buffer in the model, or let nn.split(model)[0] be the parameters beside them",
            )
        walk = ModelWalk(params)
        return ModelStructure(walk, ambient_of(params)), by_path(walk.parameters), by_path(walk.kept) or None
    if before is not None and isinstance(params, dict) and set(params) == {place.path for place in before.parameters}:
        return before, params, buffers
    return None, params, None if before is not None and buffers is SAME else buffers


def arrays_read(given: Any) -> Any:
    """A part of the state with NumPy arrays in place of those of JAX."""
    leaves, structure = tree.flatten(given)
    read = constants_read(leaves)
    return given if all(map(operator.is_, leaves, read)) else tree.unflatten(structure, read)


def given_parts(changes: dict[str, Any], model: ModelStructure | None) -> dict[str, Any]:
    """Remove parameters and buffers from changes and return them; a model for `params` gives both."""
    parts: dict[str, Any] = {name: changes.pop(name) for name in ("params", "buffers") if name in changes}
    if "params" in parts and model is not None:
        _, params, buffers = split_model(parts["params"], parts.get("buffers", SAME), model)
        parts = {name: part for name, part in (("params", params), ("buffers", buffers)) if part is not SAME}
    return parts


def ambient_of(model: Any) -> list[Weights]:
    """The ambient weights in a model or a tree, in order."""
    return [x for x in tree.flatten(model, is_model)[0] if isinstance(x, Weights)]


def is_model(x: Any) -> bool:
    """True if a node of a tree is a module or a frozen array."""
    return isinstance(x, Module | Frozen)


def in_mode(model: Any, training: bool) -> Any:
    """A model, or a tree with modules in it, in training or evaluation mode."""
    parts, structure = tree.flatten(model, lambda x: isinstance(x, Module))
    return tree.unflatten(structure, [x.train(training) if isinstance(x, Module) else x for x in parts])


def check_stays(path: str, x: Any, seen: Sequence[FieldAssignment]) -> None:
    """Raise UnsupportedError for an array that belongs to a loop or another function that has ended."""
    builder = x.value.builder if isinstance(x, Array) else None
    if builder is not None and builder.closed:
        raise UnsupportedError(
            f"compile: {path} is assigned inside of {builder.reason}, and its value does not leave it",
            where=next((one.where for one in reversed(seen) if vars(one.module).get(one.field) is x), None),
            hint="return the value from there and assign it outside; ws.checkpoint, ws.autocast and nn.Stack do that",
        )


def warn_of_lost(unchanged: Mapping[str, Any], seen: Sequence[FieldAssignment]) -> None:
    """Give a LostAssignmentWarning for buffers that a copy of the model has assigned, but not the model itself."""
    by_value = {id(x): path for path, x in unchanged.items()}
    lost = {by_value[id(one.before)]: one.where for one in seen if id(one.before) in by_value}
    if lost:
        warn(
            f"compile: the loss assigns {first_few(list(lost), 3)} in a copy of the model, and the step keeps the old "
            f"value{'s' * (len(lost) > 1)}",
            LostAssignmentWarning,
            where=next(iter(lost.values())),
            hint="transforms such as ws.vmap work on copies of their arguments: return the value from there and assign "
            "it to the model, or call the copy in evaluation mode",
        )


def changed_error(what: str) -> UnsupportedError:
    """The error for a forward pass that changes more than buffers."""
    return UnsupportedError(
        f"compile: the loss changes {what}, and of a model it may assign nothing but its buffers",
        hint="mark an array that the forward assigns with nn.buffer, or return the value with has_aux",
    )
