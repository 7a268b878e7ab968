"""Functions of JAX as functions here: traced by JAX, computed, differentiated and compiled by this library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wholestep import containers, numpy as wnp, tree
from wholestep.errors import DtypeError, MissingExtraError, ShapeError, TreeError
from wholestep.frontend.tracing import holds_keys
from wholestep.interop.jax.program import JaxProgram, read_jaxpr, run
from wholestep.nn.windows import type_text


def from_jax(f: Callable[..., Any], *examples: Any) -> JaxFunction:
    """A function of JAX as a function here: `g = ws.from_jax(f, *examples)`, and then `g(*args)`.

    JAX traces `f` once, for arrays like the examples, which are trees of arrays, of shapes or of numbers; without
    examples it is traced at the first call for each kind of arguments. The result is a function like any other:
    `ws.grad`, `ws.vmap`, `ws.jit` and `ws.compile` take it. Derivatives that `f` states for itself are kept, and
    `jax.random` inside of it gives the same numbers; for typed keys it takes their words too, as `jax.random.key_data`
    gives them, and returns these. Classes that the examples hold and JAX knows as trees, modules of Equinox and Flax
    among them, are trees here from then on.

    Shapes: arguments of the shapes and dtypes of the examples, and results as JAX gives them: without
    `jax_enable_x64` in single precision.
    Raises: UnsupportedError that lists all primitives which are not covered, TreeError, ShapeError and DtypeError for
    other arguments, and MissingExtraError where JAX is not installed.

    >>> import numpy as np, jax.numpy as jnp, wholestep as ws
    >>> g = ws.from_jax(lambda w, x: jnp.tanh(x @ w).sum(), np.ones(2, np.float32), np.ones((3, 2), np.float32))
    >>> ws.grad(g)(np.zeros(2, np.float32), np.ones((3, 2), np.float32)).tolist()
    [3.0, 3.0]
    """
    function = JaxFunction(f, fixed=bool(examples))
    if examples:
        function.traced(examples)
    return function


class JaxFunction:
    """A function of JAX, called with arrays of this library; `programs` has a jaxpr for each kind of arguments."""

    def __init__(self, f: Callable[..., Any], fixed: bool) -> None:
        self.f, self.fixed = f, fixed
        self.programs: dict[Any, tuple[JaxProgram, Any]] = {}

    def traced(self, args: tuple[Any, ...]) -> tuple[JaxProgram, Any]:
        """The program for arguments like these, and the tree structure of its results."""
        jax = jax_needed()
        adopt_classes(args)
        leaves, structure = jax.tree_util.tree_flatten(args)
        keys = [x.dtype._impl if holds_keys(x) else None for x in leaves]

        def of_words(*xs: Any) -> Any:
            given = [x if k is None else jax.random.wrap_key_data(x, impl=k) for x, k in zip(xs, keys, strict=True)]
            return jax.tree_util.tree_map(key_words, self.f(*jax.tree_util.tree_unflatten(structure, given)))

        examples = [struct_of(key_words(x)) for x in leaves]
        closed, shapes = jax.make_jaxpr(of_words, return_shape=True)(*examples)
        avals = [(tuple(v.aval.shape), np.dtype(v.aval.dtype)) for v in closed.jaxpr.invars]
        found = read_jaxpr(closed), jax.tree_util.tree_structure(shapes)
        self.programs[structure, tuple(avals)] = found
        return found

    def __call__(self, *args: Any) -> Any:
        jax = jax_needed()
        leaves, structure = jax.tree_util.tree_flatten(args)
        values = [wnp.asarray(narrowed(key_words(x))) for x in leaves]
        kind = structure, tuple((tuple(x.shape), np.dtype(x.dtype)) for x in values)
        if kind not in self.programs and not self.fixed:
            shapes = [x if holds_keys(x) else struct_of(value) for x, value in zip(leaves, values, strict=True)]
            self.traced(jax.tree_util.tree_unflatten(structure, shapes))
        if kind not in self.programs:
            self.refuse(args, values)
        program, returned = self.programs[kind]
        with np.errstate(all="ignore"):  # JAX warns of no number
            return jax.tree_util.tree_unflatten(returned, run(program, values))

    def refuse(self, args: tuple[Any, ...], values: list[Any]) -> None:
        """Raise TreeError, ShapeError or DtypeError for arguments that differ from the ones that were traced last."""
        named, structure = jax_needed().tree_util.tree_flatten_with_path(args)
        names = [f"args{jax_needed().tree_util.keystr(path)}" for path, _ in named]
        wanted, types = list(self.programs)[-1]
        if structure != wanted:
            raise TreeError(f"from_jax: arguments {structure}, and the examples were {wanted}")
        for name, x, (shape, dtype) in zip(names, values, types, strict=True):
            if tuple(x.shape) != shape:
                raise ShapeError(
                    f"from_jax: {name} is {type_text(x)}, and its example was of shape {list(shape)}",
                    hint="from_jax(f), without examples, traces it for each shape",
                )
            if x.dtype != dtype:
                raise DtypeError(
                    f"from_jax: {name} is {type_text(x)}, and JAX made {dtype} of its example",
                    hint=f"x.astype({str(dtype)!r}), or jax.config.update('jax_enable_x64', True) before",
                )

    def __repr__(self) -> str:
        return f"JaxFunction({getattr(self.f, '__name__', 'f')})"


def jax_needed() -> Any:
    """The package jax; raises MissingExtraError where it is not installed."""
    try:
        import jax
    except ImportError:
        raise MissingExtraError("from_jax: jax is not installed", hint="pip install jax") from None
    return jax


def adopt_classes(x: Any) -> None:
    """Register the classes of nodes that JAX knows and this library does not, as JAX takes them apart."""
    keyed, _ = jax_node(x)
    if any(not path for path, _ in keyed):
        return  # a leaf
    if x is not None and containers.one_level(x) is None:
        tree.register(type(x), flattened_by_jax, lambda node, children: node.unflatten(children))
    for _, child in keyed:
        adopt_classes(child)


def jax_node(x: Any) -> tuple[Any, Any]:
    """The children of one node with their keys, and the structure of it alone."""
    return jax_needed().tree_util.tree_flatten_with_path(x, is_leaf=lambda y: y is not x)  # type: ignore[no-any-return]


def flattened_by_jax(x: Any) -> tuple[list[Any], Any, tuple[Any, ...]]:
    """The children of a node that JAX knows, the structure that rebuilds it from them, and their names."""
    keyed, structure = jax_node(x)
    return [child for _, child in keyed], structure, tuple(key_name(path[0]) for path, _ in keyed)


def key_name(key: Any) -> Any:
    """The name of a child: that of an attribute, a key or a position."""
    return next((getattr(key, name) for name in ("name", "key", "idx") if hasattr(key, name)), str(key))


def narrowed(x: Any) -> Any:
    """A Python number in JAX's dtype for it; other values unchanged."""
    jax = jax_needed()
    if isinstance(x, bool | int | float | complex):
        return np.asarray(x, jax.dtypes.canonicalize_dtype(np.asarray(x).dtype))
    return x


def key_words(x: Any) -> Any:
    """The words of typed keys, as `jax.random.key_data` gives them; other leaves unchanged."""
    return jax_needed().random.key_data(x) if holds_keys(x) else x


def struct_of(x: Any) -> Any:
    """The shape and dtype of an example, as JAX traces it."""
    jax = jax_needed()
    a = x if hasattr(x, "shape") and hasattr(x, "dtype") else np.asarray(x)
    return jax.ShapeDtypeStruct(a.shape, jax.dtypes.canonicalize_dtype(a.dtype))
