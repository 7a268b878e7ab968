"""Nested containers as lists of leaves: flatten, unflatten, and the path a user would write to each leaf."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import optree

from wholestep.containers import SPACE, one_level, too_deep
from wholestep.errors import ShapeError, TreeError
from wholestep.exits import UNBROKEN
from wholestep.spelling import Path as Path, access as access, access_to, below_root, matches as matches
from wholestep.words import type_in_words

T = TypeVar("T")
Tree: TypeAlias = Any
"""A tree of arrays whose structure no type says: nested containers and modules. Type checkers take it for anything."""

TreeDef: TypeAlias = optree.PyTreeSpec

_LEAVES = frozenset((np.ndarray, np.float64, np.float32, int, float))
"""Types of leaves that cannot be registered as nodes, tested first: a call of optree takes longer than most uses."""
_MISSING = object()
_LEAF: TreeDef = optree.tree_structure(cast(Any, 0), namespace=SPACE)


def flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeDef]:
    """A tree as its leaves and its structure; None is an empty node, not a leaf.

    Shapes: leaves are anything; where `is_leaf(node)` holds, a whole node is one.
    Raises: TreeError for containers that lie more than 1,000 deep in each other.

    >>> import wholestep as ws
    >>> ws.tree.flatten({"b": [2, None], "a": 1})[0]
    [1, 2]
    """
    if type(tree) in _LEAVES:
        return [tree], _LEAF
    with UNBROKEN:
        try:
            return optree.tree_flatten(tree, is_leaf, namespace=SPACE)
        except RecursionError:
            raise too_deep() from None


def unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Tree:
    """The tree of a structure, `treedef`, and its leaves.

    Shapes: leaves are anything, in the order of `tree.leaves`.
    Raises: ValueError where there are too few or too many, TreeError for a `treedef` that is no structure.

    >>> import wholestep as ws
    >>> ws.tree.unflatten(ws.tree.structure({"a": 0, "b": [0]}), [1, 2])
    {'a': 1, 'b': [2]}
    """
    if treedef is _LEAF:
        (leaf,) = leaves
        return leaf
    if not isinstance(treedef, optree.PyTreeSpec):
        raise TreeError(f"unflatten: {type_in_words(treedef)} is no structure", hint="tree.structure gives one")
    with UNBROKEN:
        return treedef.unflatten(leaves)


def map(f: Callable[..., Any], tree: Tree, *rest: Tree, is_leaf: Callable[[Any], bool] | None = None) -> Tree:
    """The tree of the results of f for each leaf of a tree, with the leaves of `rest`, which have the same outline.

    Where `is_leaf(node)` holds, a whole node is a leaf; subtrees of the other trees at a leaf are passed as they are.

    Shapes: leaves are anything; the result has the outline of the first tree.
    Raises: TreeError where the outlines differ, and for containers that lie more than 1,000 deep in each other.

    >>> import wholestep as ws
    >>> ws.tree.map(lambda x, y: x + y, [1, (2,)], [10, (20,)])
    [11, (22,)]
    """
    found, treedef = flatten(tree, is_leaf)
    others = [below(treedef, other) for other in rest]
    return unflatten(treedef, [f(*leaves) for leaves in zip(found, *others, strict=True)])


def map_with_path(f: Callable[..., Any], tree: Tree, *rest: Tree, is_leaf: Callable[[Any], bool] | None = None) -> Tree:
    """`map` for a function that is given the path of each leaf before the leaf.

    Arguments are those of `tree.map`.

    Shapes: as `tree.map`; a path is a string, the access that a user would write: `layers[0].weight`.
    Raises: as `tree.map`.

    >>> import wholestep as ws
    >>> ws.tree.map_with_path(lambda path, x: x if path.endswith("bias") else 0, {"bias": 1, "weight": [2]})
    {'bias': 1, 'weight': [0]}
    """
    found, treedef = flatten(tree, is_leaf)
    others = [below(treedef, other) for other in rest]
    return unflatten(treedef, [f(*leaves) for leaves in zip(_paths(treedef), found, *others, strict=True)])


@UNBROKEN
def below(treedef: TreeDef, tree: Any) -> list[Any]:
    """Return the subtree of another tree at each leaf of a structure.

    Metadata of structures, such as the frozen arrays of a model, may differ. Raises TreeError if the outlines do.

    >>> below(structure([0, (0,)]), [1, ({"a": 2},)])
    [1, {'a': 2}]
    """
    with outlines():
        try:
            return treedef.flatten_up_to(tree)
        except ValueError:
            found = [tell(treedef.unflatten([0] * treedef.num_leaves), tree, "tree") for tell in _telling]
            if not any(found):
                raise
            raise TreeError(f"tree: two structures differ: {found[0]}", hint=found[0].hint) from None


_telling: list[Callable[[Any, Any, str], Any]] = []


def tell_differences(tell: Callable[[Any, Any, str], Any]) -> None:
    """Register the function that says where a tree differs from the outline of another one."""
    _telling.append(tell)


@contextmanager
def outlines() -> Iterator[None]:
    """Compare structures by their outline alone inside the block, without the arrays that they hold."""
    before, _comparing.outlines = _comparing.outlines, True
    try:
        yield
    finally:
        _comparing.outlines = before


def comparing_outlines() -> bool:
    """Return whether the metadata of structures, such as the frozen arrays of a model, count as equal now."""
    return _comparing.outlines


class _Comparing(threading.local):
    outlines = False


_comparing = _Comparing()


def leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves of a tree in order.

    Shapes: leaves are anything; where `is_leaf(node)` holds, a whole node is one.
    Raises: TreeError for containers that lie more than 1,000 deep in each other.

    >>> import wholestep as ws
    >>> ws.tree.leaves(({"x": 1}, 2))
    [1, 2]
    """
    if is_leaf is not None:
        return flatten(tree, is_leaf)[0]
    try:
        return optree.tree_leaves(tree, namespace=SPACE)
    except RecursionError:
        raise too_deep() from None


def leaves_with_path(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[tuple[str, Any]]:
    """Pairs of the path of a leaf and the leaf, in order.

    Shapes: as `tree.leaves`; a path is a string, the access that a user would write: `layers[0].weight`.
    Raises: as `tree.leaves`.

    >>> import wholestep as ws
    >>> ws.tree.leaves_with_path([1, {"x": 3}])
    [('[0]', 1), ('[1].x', 3)]
    """
    found, treedef = flatten(tree, is_leaf)
    return [*zip(_paths(treedef), found, strict=True)]


def reduce(
    f: Callable[[Any, Any], T],
    tree: Any,
    initializer: Any = _MISSING,
    is_leaf: Callable[[Any], bool] | None = None,
) -> T:
    """The fold of a tree's leaves, from the first to the last, by a function of the value so far and a leaf.

    `f(so_far, leaf)` begins with `initializer`, or with the first leaf where there is none.

    Shapes: as `tree.leaves`.
    Raises: TreeError for a tree without leaves where there is no `initializer`, and as `tree.leaves`.

    >>> import wholestep as ws
    >>> ws.tree.reduce(lambda total, x: total + x, [1, (2, 3), {"a": 4}])
    10
    """
    found = leaves(tree, is_leaf)
    if initializer is _MISSING:
        if not found:
            raise TreeError("tree.reduce: the tree has no leaves", hint="give an initializer, which is the result then")
        initializer = found.pop(0)
    made: T = functools.reduce(f, found, initializer)
    return made


def ravel(tree: Any) -> tuple[Any, Callable[[Any], Tree]]:
    """One vector of the elements of all leaves, and the function that makes a tree like this one of such a vector.

    The vector has the dtype that all leaves promote to; the leaves of the tree that is made have their own.

    Shapes: leaves are arrays or numbers, [n] in all; the function takes a vector [n].
    Raises: TreeError for a tree without leaves, ShapeError for a vector of another length.

    >>> import numpy as np
    >>> import wholestep as ws
    >>> vector, unravel = ws.tree.ravel({"w": np.ones((2, 2)), "b": 3.0})
    >>> vector, unravel(2 * vector)["w"].shape
    (array([3., 1., 1., 1., 1.]), (2, 2))
    """
    found, treedef = flatten(tree)
    if not found:
        raise TreeError("tree.ravel: the tree has no leaves", hint="a vector is made of one leaf or more")
    types = [(np.shape(x), x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype) for x in found]
    ends = np.cumsum([math.prod(shape) for shape, _ in types]).tolist()

    def unravel(vector: Any) -> Tree:
        if np.shape(vector) != (ends[-1],):
            raise ShapeError(
                f"tree.ravel: a vector of {ends[-1]} elements makes the tree, not one of {np.shape(vector)}"
            )
        parts = np.split(vector, ends[:-1])
        made = [np.reshape(x, shape).astype(dtype) for x, (shape, dtype) in zip(parts, types, strict=True)]
        return unflatten(treedef, made)

    return np.concatenate([np.ravel(x) for x in found]), unravel


def transpose(outer: TreeDef, inner: TreeDef | None, tree: Tree) -> Tree:
    """The transpose of a tree of trees: from structure `outer` with `inner` at each leaf to `inner` with `outer`.

    Where `inner` is None, it is that of the first tree inside. Subtrees deeper than both structures move as leaves do.

    Shapes: `outer` and `inner` are structures, as `tree.structure` gives them; leaves are anything.
    Raises: ValueError where the tree has another outline, TreeError where there is no tree to find `inner` in.

    >>> import wholestep as ws
    >>> pairs = [{"x": 1, "y": 2}, {"x": 3, "y": 4}]
    >>> ws.tree.transpose(ws.tree.structure([0, 0]), None, pairs)
    {'x': [1, 3], 'y': [2, 4]}
    """
    trees = below(outer, tree)
    if inner is None:
        if not trees:
            raise TreeError("tree.transpose: the outer structure has no leaves", hint="give the inner structure too")
        inner = structure(trees[0])
    rows = [below(inner, each) for each in trees]
    columns = zip(*rows, strict=True) if rows else [()] * inner.num_leaves
    return unflatten(inner, [unflatten(outer, column) for column in columns])


@UNBROKEN
def structure(tree: Any) -> TreeDef:
    """The tree without its leaves, which can be compared and hashed.

    Shapes: leaves are anything.
    Raises: TreeError for containers that lie more than 1,000 deep in each other.

    >>> import wholestep as ws
    >>> ws.tree.structure([1, 2]) == ws.tree.structure([3, 4])
    True
    """
    try:
        return optree.tree_structure(tree, namespace=SPACE)
    except RecursionError:
        raise too_deep() from None


def paths(tree: Any, root: str = "") -> list[str]:
    """The path of each leaf: the access to it that a user would write.

    Shapes: leaves are anything; `root` is the name of the tree.
    Raises: as `tree.leaves`.

    >>> import wholestep as ws
    >>> ws.tree.paths({"layers": [{"weight": 1}]}, root="params")
    ['params.layers[0].weight']
    """
    return _paths(structure(tree), root)


@UNBROKEN
def _paths(treedef: TreeDef, root: str = "") -> list[str]:
    """The paths of the leaves of a structure."""
    found: list[str] = []
    waiting = [(treedef, "")]
    while waiting:
        node, before = waiting.pop()
        if node.is_leaf():
            found.append(below_root(root, before))
            continue
        steps = [before + access_to(key) for key in _keys(node)]
        if node.num_children == node.num_leaves == node.num_nodes - 1:  # leaves alone, which are then not looked at
            found += [below_root(root, step) for step in steps]
        else:
            waiting += reversed([*zip(node.children(), steps, strict=True)])
    return found


def prefix(tree_prefix: Any, tree: Any, root: str = "") -> list[Any]:
    """The value that `tree_prefix`, smaller and of the same outline, has for each leaf of a tree; None is a value too.

    Shapes: leaves and values are anything; `root` is the name of the tree in messages.
    Raises: ValueError naming the path at which the outlines part.

    >>> import wholestep as ws
    >>> ws.tree.prefix((None, 0), ({"a": 1, "b": 2}, 3))
    [None, None, 0]
    """
    values: list[Any] = []
    _spread(tree_prefix, tree, root, values)
    return values


@UNBROKEN
def register(
    cls: type[Any],
    flatten_fn: Callable[[Any], tuple[Any, ...]],
    unflatten_fn: Callable[[Any, Any], Any],
) -> None:
    """Make `cls` a node: `flatten_fn(node)` gives (children, extra), `unflatten_fn(extra, children)` the node.

    A third item in the tuple names the children; names that are identifiers are spelled as attributes in paths.

    Shapes: children are trees of anything; `extra` can be compared and hashed.
    Raises: TypeError where `cls` is not a class, ValueError where it is registered already.

    >>> import wholestep as ws
    >>> class Pair:
    ...     def __init__(self, left, right):
    ...         self.left, self.right = left, right
    >>> ws.tree.register(Pair, lambda p: ((p.left, p.right), None, ("left", "right")), lambda _, xs: Pair(*xs))
    >>> ws.tree.paths([Pair(1, 2)], root="x")
    ['x[0].left', 'x[0].right']
    """
    optree.register_pytree_node(cls, flatten_fn, unflatten_fn, namespace=SPACE)


def _keys(node: TreeDef) -> Sequence[Any]:
    """The keys, places or names of fields by which the children of a container are reached."""
    if node.kind == optree.PyTreeKind.NAMEDTUPLE:
        return optree.namedtuple_fields(cast(Any, node.type))
    if node.kind == optree.PyTreeKind.STRUCTSEQUENCE:
        return optree.structseq_fields(cast(Any, node.type))
    return node.entries()


@UNBROKEN
def _spread(value: Any, node: Any, path: str, values: list[Any]) -> None:
    if value is None or optree.tree_is_leaf(value, namespace=SPACE):
        values.extend([value] * structure(node).num_leaves)
        return
    if node is None or optree.tree_is_leaf(node, namespace=SPACE):
        _part(path, f"the prefix has {type_in_words(value)} where the tree has {_described(node)}")
    wanted, present = _named_items(value), _named_items(node)
    if type(value) is not type(node) and not (isinstance(value, Mapping) and isinstance(node, Mapping)):
        _part(path, f"the prefix has {type_in_words(value)} where the tree has {type_in_words(node)}")
    if wanted.keys() != present.keys():
        _part(path, _difference(wanted, present))
    for key, child in present.items():
        _spread(wanted[key], child, below_root(path, access_to(key)), values)


def _named_items(node: Any) -> dict[Hashable, Any]:
    level = one_level(node)
    assert level is not None
    return dict(zip(level.keys, level.children, strict=True))


def _difference(wanted: dict[Hashable, Any], present: dict[Hashable, Any]) -> str:
    if any(isinstance(key, str) for key in (*wanted, *present)):
        return f"the prefix has the keys {list(wanted)} where the tree has {list(present)}"
    return f"the prefix has length {len(wanted)} where the tree has length {len(present)}"


def _described(node: Any) -> str:
    return "None" if node is None else f"a leaf, {_name(node)}"


def _name(node: Any) -> str:
    return type(node).__name__


def _part(path: str, what: str) -> None:
    raise ValueError(f"at {path}: {what}" if path else what)
