"""Stack: equal layers with stacked arrays, run as a scan over the program of one layer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from wholestep import numpy as wnp, random, tree
from wholestep.boundary.counts import is_integer
from wholestep.errors import DtypeError, ParameterError, ShapeError, TreeError, UnsupportedError
from wholestep.frontend.array import Array
from wholestep.frontend.batching import vmap
from wholestep.frontend.tracing import type_of
from wholestep.ir.build import current
from wholestep.nn.keys import as_key, takes_key
from wholestep.nn.model_structure import Fixed, ModuleBody, without_arrays
from wholestep.nn.module import Module, copy_of
from wholestep.nn.stack_loops import checked_keep, looped
from wholestep.nn.traversal import ModelWalk, Rebuilt, Reread
from wholestep.nn.waiting import PathKey, draw_waiting
from wholestep.words import type_in_words

SPEC = "_stack"
"""The name of the field that holds a stack's `Spec`; all other fields are those of its layers."""


@dataclass(frozen=True)
class Spec:
    """The description of a stack: the class of its layers, their number, and the residuals that it keeps."""

    cls: type[Any]
    depth: int
    keep: Any
    inner: Spec | None = None
    """The description of a layer that is a stack itself."""

    def levels(self) -> list[Spec]:
        """This description, and those of the stacks inside, the innermost last."""
        return [self, *(self.inner.levels() if self.inner else [])]


class Stack(Module):
    """n layers of one structure, one after another: a loop, whose program and compile time do not depend on n.

    `layer` is called once for each layer, as `layer(key=k)` or `layer(k)` with one of n keys that `key`, a seed or a
    key, is split into, or without arguments where no key is given: `nn.Stack(lambda key: nn.TransformerBlock(256, 8,
    key=key), 24, key=0)`. The arrays of the layers, buffers and frozen ones among them, are stacked along a first
    axis, under the paths that they have in one layer: `stack.weight` is [n, in, out].

    The call passes x to the first layer and each result to the next layer; other arguments go to every layer. A `key`
    is split among the layers where their call has a keyword-only `key`. Layers that take a `cache` and return (y,
    cache) have theirs stacked: `stack.init_cache(...)` makes one, and the call returns (y, cache) too. `stack[i]` is a
    layer whose arrays are views, `len(stack)` is n.

    `keep` selects the residuals that are kept for the backward pass: "all"; "inputs", those of the layers, whose other
    values are then rematerialized; an integer `k` or "sqrt", a k near √n, the inputs of every `k`-th layer, at the cost
    of one more forward pass; or a policy of `ws.checkpoint`, the values that it names inside the layers. Parameters
    train to the same bits in all modes. A stack that is larger than memory lies in files: `ws.compile(...,
    stream="blocks.*", folder=...)` with the paths of its parameters, and "inputs" here.

    An optimizer sees the stacked arrays: one that measures whole arrays, such as `lamb`, measures all layers together.

    Shapes: x and the result of one shape and dtype, those that a layer takes and returns; parameters [n, ...].
    Raises: ShapeError or DtypeError where a layer does not return the type that it is given, TreeError for layers of
    different structure, ParameterError for another `keep` and for n below 1.
    Source: Chen et al., "Training deep nets with sublinear memory cost", 2016, for "sqrt".

    >>> import numpy as np, wholestep as ws
    >>> stack = ws.nn.Stack(lambda key: ws.nn.Linear(3, 3, key=key), 4, key=0, keep="inputs")
    >>> stack.weight.shape, stack(np.ones((2, 3), np.float32)).shape, len(stack)
    ((4, 3, 3), (2, 3), 4)
    >>> list(ws.nn.named_parameters(stack)), stack[1].weight.shape
    (['weight', 'bias'], (3, 3))
    """

    def __init__(self, layer: Callable[..., Any], n: int, *, key: Any = None, keep: Any = "all") -> None:
        if isinstance(layer, Module) or not callable(layer):
            raise ParameterError(
                f"Stack: {type(layer).__name__} is no function that makes a layer",
                hint="nn.Stack(lambda key: nn.Linear(8, 8, key=key), 4, key=0), or nn.Stack.from_layers([...])",
            )
        if not is_integer(n) or n < 1:
            raise ParameterError(f"Stack: n is {n!r}; it is the number of layers, 1 or more")
        if key is None:
            self._fill((layer() for _ in range(n)), int(n), keep)
            return
        keys = random.split(as_key(key), int(n))
        if current() is None:
            self._fill((made_with(layer, k) for k in keys), int(n), keep)
        else:
            self._fill_in_trace(layer, keys, keep)

    @classmethod
    def from_layers(cls, layers: Sequence[Any], keep: Any = "all") -> Self:
        """A stack of existing layers; their arrays are copied.

        Raises TreeError where their structures differ or two of them share an array, else as `Stack` does.

        >>> import wholestep as ws
        >>> layers = [ws.nn.Linear(2, 2, key=i) for i in range(3)]
        >>> ws.nn.Stack.from_layers(layers)
        3 x Linear(weight=float32[3, 2, 2], bias=float32[3, 2])
        """
        layers = list(layers)
        if not layers:
            raise ParameterError("Stack: no layers were given")
        walks = [walked(layer, i) for i, layer in enumerate(layers)]
        for i, walk in enumerate(walks):
            for other in walks[:i]:
                refuse_shared(walk, other, i)
        made = cls.__new__(cls)
        made._fill(layers, len(layers), keep)
        return made

    def to_layers(self) -> list[Any]:
        """The layers as modules of their own, with copies of the arrays.

        >>> import wholestep as ws
        >>> stack = ws.nn.Stack(lambda key: ws.nn.Linear(2, 2, key=key), 3, key=0)
        >>> [layer.weight.shape for layer in stack.to_layers()]
        [(2, 2), (2, 2), (2, 2)]
        """
        return [self._layer(i, lambda x: x.copy()) for i in range(len(self))]

    def keeping(self, keep: Any) -> Self:
        """A copy with the same arrays in another mode.

        >>> import numpy as np, wholestep as ws
        >>> stack = ws.nn.Stack(lambda key: ws.nn.Linear(2, 2, key=key), 3, key=0)
        >>> stack.keeping(2).weight is stack.weight
        True
        """
        copied = copy_of(self)
        copied.__dict__[SPEC] = replace(self._spec, keep=checked_keep(keep))
        return copied

    @classmethod
    def _waits(cls, given: Mapping[str, Any]) -> bool:
        layer = given.get("layer")
        return callable(layer) and not isinstance(layer, Module) and takes_one(layer)

    @property
    def _spec(self) -> Spec:
        found: Spec = self.__dict__[SPEC]
        return found

    @property
    def undecayed(self) -> tuple[str, ...]:  # type: ignore[override]  # as the class of the layers has it
        names: tuple[str, ...] = self._spec.levels()[-1].cls.undecayed
        return names

    def __len__(self) -> int:
        return self._spec.depth

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: int) -> Any:
        """One layer; its arrays are views of the stacked ones."""
        at = range(len(self))[index]
        return self._layer(at, lambda x: x)

    def _layer(self, at: int, taken: Callable[[Any], Any]) -> Any:
        walk = ModelWalk(self)
        rows = [[taken(place.value[at, ...]) for place in places] for places in (walk.parameters, walk.kept)]
        return Rebuilt(self._structure(walk), rows[0], rows[1]).root

    def _structure(self, walk: ModelWalk) -> ModuleBody:
        """The structure of one layer."""
        own, spec = walk.structure, self._spec
        fields = {name: field for name, field in zip(own.names, own.fields, strict=True) if name != SPEC}
        if spec.inner is not None:
            fields[SPEC] = Fixed(spec.inner)
        return ModuleBody(spec.cls, own.marks, own.ties, tuple(fields), tuple(fields.values()))

    def _fill(self, layers: Iterable[Any], depth: int, keep: Any) -> None:
        """Stack the arrays of layers, one layer after another, so that memory holds only one layer beside the stack."""
        first: ModelWalk | None = None
        stacked: list[Any] = []
        for i, layer in enumerate(layers):
            walk = walked(layer, i)
            if first is None:
                first = walk
                stacked = [room(place.value, depth) for place in walk.places]
            else:
                refuse_other(walk, first, i)
                refuse_shared(walk, first, i)
            for rows, place in zip(stacked, walk.places, strict=True):
                rows[i] = place.value
        assert first is not None
        self._become(first, stacked, keep, depth)

    def _fill_in_trace(self, layer: Callable[..., Any], keys: Any, keep: Any) -> None:
        """Stack the arrays of layers in a trace, where one layer is traced for all."""
        found: list[ModelWalk] = []

        def arrays(key: Any) -> list[Any]:
            found.append(walked(made_with(layer, key), 0))
            return [place.value for place in found[-1].places if isinstance(place.value, Array)]

        made = iter(vmap(arrays)(keys))
        depth = len(keys)
        stacked = [
            next(made) if isinstance(p.value, Array) else np.repeat(p.value[None], depth, axis=0)
            for p in found[-1].places
        ]
        self._become(found[-1], stacked, keep, depth)

    def _become(self, layer: ModelWalk, stacked: Sequence[Any], keep: Any, depth: int) -> None:
        """Take the fields of a layer, around stacked arrays."""
        n = len(layer.parameters)
        whole = Rebuilt(without_arrays(layer.structure), stacked[:n], stacked[n:]).root
        spec = Spec(type(whole), depth, checked_keep(keep), vars(whole).get(SPEC))
        self.__dict__.update({**vars(whole), SPEC: spec})
        for note in ("_marks", "_ties"):
            object.__setattr__(self, note, getattr(whole, note))

    def init_cache(self, *args: Any, **kwargs: Any) -> Any:
        """The caches of all layers, stacked along a first axis; arguments are those of a layer's `init_cache`.

        Raises UnsupportedError where layers have none.

        >>> import numpy as np, wholestep as ws
        >>> stack = ws.nn.Stack(lambda key: ws.nn.TransformerBlock(8, 2, key=key, causal=True), 3, key=0)
        >>> x, cache = np.ones((1, 5, 8), np.float32), stack.init_cache(1, 5)
        >>> y, cache = stack(x[:, :4], cache=cache)
        >>> z, cache = stack(x[:, 4:], cache=cache, position=4)
        >>> cache["k"].shape, bool(np.allclose(z, stack(x)[:, 4:], atol=1e-5))
        ((3, 1, 2, 5, 4), True)
        """
        layer = self[0]
        make = getattr(type(layer), "init_cache", None)
        if make is None:
            raise UnsupportedError(
                f"Stack: {type(layer).__name__} has no init_cache", hint="give its class one, as TransformerBlock has"
            )
        return tree.map(lambda x: np.repeat(x[None], len(self), axis=0), make(layer, *args, **kwargs))

    def __call__(self, x: Any, *args: Any, key: Any = None, cache: Any = None, **kwargs: Any) -> Any:
        walk, spec = ModelWalk(self), self._spec
        structure = without_arrays(self._structure(walk))
        draws = key is not None and takes_key(spec.cls.__call__)
        keys = random.split(as_key(key), spec.depth) if draws else None
        assigned: list[int] = []

        def step(x: Any, row: Any) -> tuple[Any, Any]:
            params, kept, given = row
            layer = Rebuilt(structure, params, kept).root
            y, held = layer(x, *args, **given, **kwargs), None
            if cache is not None:
                y, held = with_cache(y, given["cache"], spec.cls.__name__)
            check_returned(x, y, spec.cls.__name__)
            now = Reread(structure, layer)
            if not now.same:
                raise UnsupportedError(
                    f"Stack: {spec.cls.__name__} changes its fields in a call, and all but buffers would be lost",
                    hint="mark an array that the forward assigns with nn.buffer, or return the value",
                )
            assigned[:] = [i for i, old in enumerate(kept) if now.kept[i] is not old]
            return y, ([now.kept[i] for i in assigned], held)

        own = {name: of_each for name, of_each in (("key", keys), ("cache", cache)) if of_each is not None}
        rows = ([p.value for p in walk.parameters], [p.value for p in walk.kept], own)
        y, (new, held) = looped(step, x, rows, spec.depth, spec.keep)
        for i, value in zip(assigned, new, strict=True):
            assign(self, walk.kept[i].path, value)
        return y if cache is None else (y, held)

    def _title(self) -> str:
        return f"{len(self)} x {self._spec.cls.__name__}"

    def _listed(self) -> list[str]:
        return [name for name in super()._listed() if name != SPEC]


def made_with(layer: Callable[..., Any], key: Any) -> Any:
    """A layer made with this key, by name if the function has a parameter `key`; its undrawn modules are drawn."""
    found = parameters_of(layer)
    if found is None or "key" not in found:
        made = layer() if found == {} else layer(key)
    else:
        made = layer(key=key)
    draw_waiting(made, PathKey(key))
    return made


def parameters_of(layer: Any) -> Mapping[str, inspect.Parameter] | None:
    """The parameters of a function that makes a layer, None where Python cannot tell them."""
    try:
        return dict(inspect.signature(layer).parameters)
    except (TypeError, ValueError):
        return None


def takes_one(layer: Any) -> bool:
    """Test whether a function that makes a layer asks for a key."""
    found = parameters_of(layer) or {}
    return "key" in found or any(p.default is p.empty and p.kind <= p.POSITIONAL_OR_KEYWORD for p in found.values())


def walked(layer: Any, i: int) -> ModelWalk:
    """A layer taken apart."""
    if not isinstance(layer, Module):
        raise ParameterError(f"Stack: layer {i} is {type_in_words(layer)}, not a module")
    return ModelWalk(layer)


def refuse_shared(walk: ModelWalk, other: ModelWalk, i: int) -> None:
    """Raise TreeError for a parameter that two layers share: stacked, it would be one no longer."""
    known = {id(place.value) for place in other.parameters}
    for place in walk.parameters:
        if id(place.value) in known:
            raise TreeError(
                f"Stack: layer {i} shares the parameter {place.path} with another layer, and would not in a stack",
                hint="give each layer an array of its own",
            )


def room(x: Any, depth: int) -> Any:
    """An empty array [depth, ...] for `depth` arrays like x."""
    return (wnp if isinstance(x, Array) else np).empty((depth, *x.shape), x.dtype)


def refuse_other(walk: ModelWalk, first: ModelWalk, i: int) -> None:
    """Raise TreeError for a layer that is not like the first."""
    for a, b in zip(first.places, walk.places, strict=False):
        if (a.path, a.kind, type_of(a.value)) != (b.path, b.kind, type_of(b.value)):
            raise TreeError(
                f"Stack: layer 0 has {a.kind} {a.path} {type_of(a.value)}, and layer {i} {b.kind} {b.path} "
                f"{type_of(b.value)}",
                hint="layers of a stack have one structure; put others into an nn.Sequential",
            )
    if walk.outline() != first.outline():
        raise TreeError(
            f"Stack: layer {i} has another structure than layer 0",
            hint="plain values in the layers must be equal; a function that each layer makes anew is not",
        )


def check_returned(x: Any, y: Any, name: str) -> None:
    """Raise if the structure, a shape or a dtype of a layer's result differs from its input's."""
    given, returned = ([type_of(leaf) for leaf in tree.leaves(v)] for v in (x, y))
    if tree.structure(x) != tree.structure(y):
        raise TreeError(f"Stack: {name} is given {tree.structure(x)} and returns {tree.structure(y)}")
    for a, b in zip(given, returned, strict=True):
        if a is not b:
            raise (ShapeError if a.shape != b.shape else DtypeError)(
                f"Stack: {name} turns {a} into {b}, and the next layer takes what the first one does",
                hint="a layer of a stack keeps the shape and dtype of its input; use nn.Sequential for others",
            )


def with_cache(returned: Any, given: Any, name: str) -> tuple[Any, Any]:
    """The result of a layer with its cache; raises where that is of another type than the one given."""
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise TreeError(
            f"Stack: {name} is given a cache and returns no pair (y, cache)", hint="leave out cache, or return the pair"
        )
    y, held = returned
    before, after = ([str(type_of(leaf)) for leaf in tree.leaves(v)] for v in (given, held))
    if tree.structure(given) != tree.structure(held) or before != after:
        raise TreeError(f"Stack: {name} turns its cache of {', '.join(before)} into one of {', '.join(after)}")
    return y, held


def assign(stack: Stack, path: str, value: Any) -> None:
    """Put a new value into a buffer, by its path."""
    owner, _, name = path.rpartition(".")
    found = next(module for at, module in ModelWalk(stack).modules if at == owner)
    setattr(found, name, value)
