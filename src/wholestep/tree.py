"""Nested containers as lists of leaves: flatten, unflatten, and the path a user would write to each leaf."""

import functools
import re
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from keyword import iskeyword
from typing import Any, NamedTuple, TypeAlias, cast
from unicodedata import normalize

import numpy as np
import optree

from wholestep.errors import TreeError
from wholestep.exits import UNBROKEN

TreeDef: TypeAlias = optree.PyTreeSpec

# Our own registrations stay out of the user's other libraries; what those registered globally is still seen.
_SPACE = "wholestep"
_LEAVES = frozenset((np.ndarray, np.float64, np.float32, int, float))
"""Types of leaves that nobody can register as nodes: asking would take longer than what is done with many of them."""
_LEAF: TreeDef = optree.tree_structure(cast(Any, 0), namespace=_SPACE)


def flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeDef]:
    """Split a tree into its leaves and its structure; None is an empty node, not a leaf.

    Raises TreeError, as everything here does, for containers that lie more than 1,000 deep in each other.

    >>> flatten({"b": [2, None], "a": 1})[0]
    [1, 2]
    """
    if type(tree) in _LEAVES:
        return [tree], _LEAF
    with UNBROKEN:
        try:
            return optree.tree_flatten(tree, is_leaf, namespace=_SPACE)
        except RecursionError:
            raise _too_deep() from None


def unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Any:
    """Put leaves back into a structure.

    Raises ValueError when there are too few or too many leaves.

    >>> unflatten(structure({"a": 0, "b": [0]}), [1, 2])
    {'a': 1, 'b': [2]}
    """
    if treedef is _LEAF:
        (leaf,) = leaves
        return leaf
    with UNBROKEN:
        return treedef.unflatten(leaves)


def map(f: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply a function to each leaf of a tree, together with the leaves of others of the same outline.

    Raises ValueError when the outlines differ.

    >>> map(lambda x, y: x + y, [1, (2,)], [10, (20,)])
    [11, (22,)]
    """
    found, treedef = flatten(tree)
    others = [below(treedef, other) for other in rest]
    return unflatten(treedef, [f(*leaves) for leaves in zip(found, *others, strict=True)])


@UNBROKEN
def below(treedef: TreeDef, tree: Any) -> list[Any]:
    """Return the subtree of another tree at each leaf of a structure.

    What structures keep, such as the frozen arrays of a model, may differ. Raises ValueError when the outlines do.

    >>> below(structure([0, (0,)]), [1, ({"a": 2},)])
    [1, {'a': 2}]
    """
    with outlines():
        return treedef.flatten_up_to(tree)


@contextmanager
def outlines() -> Iterator[None]:
    """Inside, structures are compared by their outline, whatever arrays they keep: see `comparing_outlines`."""
    before, _comparing.outlines = _comparing.outlines, True
    try:
        yield
    finally:
        _comparing.outlines = before


def comparing_outlines() -> bool:
    """Return whether what a structure keeps, such as the frozen arrays of a model, is to count as equal now."""
    return _comparing.outlines


class _Comparing(threading.local):
    outlines = False


_comparing = _Comparing()


def leaves(tree: Any) -> list[Any]:
    """List the leaves of a tree in order.

    >>> leaves(({"x": 1}, 2))
    [1, 2]
    """
    try:
        return optree.tree_leaves(tree, namespace=_SPACE)
    except RecursionError:
        raise _too_deep() from None


@UNBROKEN
def structure(tree: Any) -> TreeDef:
    """Return what is left of a tree without its leaves: it can be compared and hashed.

    >>> structure([1, 2]) == structure([3, 4])
    True
    """
    try:
        return optree.tree_structure(tree, namespace=_SPACE)
    except RecursionError:
        raise _too_deep() from None


@UNBROKEN
def key_orders(tree: Any) -> tuple[tuple[Hashable, ...], ...]:
    """The order of the keys of each dictionary in a tree, at any depth, which its structure leaves out.

    >>> key_orders([{"b": 1, "a": ({"c": 2}, 3)}])
    (('b', 'a'), ('c',))
    """
    found: list[tuple[Hashable, ...]] = []

    def note(node: Any) -> bool:
        if isinstance(node, dict):
            found.append(tuple(node))
        return False

    try:
        optree.tree_leaves(tree, note, namespace=_SPACE)
    except RecursionError:
        raise _too_deep() from None
    return tuple(found)


@UNBROKEN
def paths(tree: Any, root: str = "") -> list[str]:
    """Spell, for each leaf, how a user would write the access to it.

    >>> paths({"layers": [{"weight": 1}]}, root="params")
    ['params.layers[0].weight']
    """
    found: list[str] = []
    waiting = [(structure(tree), "")]
    while waiting:
        node, before = waiting.pop()
        if node.is_leaf():
            found.append(_joined(root, before))
            continue
        steps = [before + _spell(key) for key in _keys(node)]
        if node.num_children == node.num_leaves == node.num_nodes - 1:  # leaves alone, which are then not looked at
            found += [_joined(root, step) for step in steps]
        else:
            waiting += reversed([*zip(node.children(), steps, strict=True)])
    return found


def prefix(tree_prefix: Any, tree: Any, root: str = "") -> list[Any]:
    """Give each leaf of a tree the value that a smaller tree of the same outline has for it; None is a value too.

    Raises ValueError naming the path at which the outlines part.

    >>> prefix((None, 0), ({"a": 1, "b": 2}, 3))
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
    """Make a class a node: `flatten_fn(node)` gives (children, extra), `unflatten_fn(extra, children)` the node.

    A third item in the tuple names the children; names that are identifiers are spelled as attributes in paths.
    Raises TypeError when `cls` is not a class and ValueError when it is registered already.

    >>> class Pair:
    ...     def __init__(self, left, right):
    ...         self.left, self.right = left, right
    >>> register(Pair, lambda p: ((p.left, p.right), None, ("left", "right")), lambda _, children: Pair(*children))
    >>> paths([Pair(1, 2)], root="x")
    ['x[0].left', 'x[0].right']
    """
    optree.register_pytree_node(cls, flatten_fn, unflatten_fn, namespace=_SPACE)


class Path(str):
    """The name of a child that lies several accesses deep, spelled as they are: `layers[0].weight`."""


class Level(NamedTuple):
    """The items of one container, what its class says of it besides, and the name of each item."""

    children: list[Any]
    metadata: Any
    keys: list[Any]


@UNBROKEN
def one_level(node: Any) -> Level | None:
    """Return the items of one container; None for a leaf.

    >>> one_level({"a": [1], "b": 2}).children
    [[1], 2]
    """
    if optree.tree_is_leaf(node, namespace=_SPACE):
        return None
    found = optree.tree_flatten_one_level(node, namespace=_SPACE)
    return Level(list(found.children), found.metadata, list(getattr(type(node), "_fields", found.entries)))


@UNBROKEN
def rebuild(cls: type[Any], metadata: Any, children: Iterable[Any]) -> Any:
    """Make a container of this class again, as `one_level` took it apart.

    >>> rebuild(dict, ["a", "b"], [1, 2])
    {'a': 1, 'b': 2}
    """
    entry: Any = optree.register_pytree_node.get(cls, namespace=_SPACE)
    return entry.unflatten_func(metadata, children)


def access(path: str, key: Any) -> str:
    """The path of a child, as a user would write it.

    >>> access(access("layers", 0), "weight")
    'layers[0].weight'
    """
    return _joined(path, _spell(key))


def matches(pattern: str, path: str) -> bool:
    """Return whether a pattern, in which `*` stands for any characters, means a path or a tree that the path is in.

    >>> [matches("layers[*].bias", p) for p in ("layers[0].bias", "layers[0].bias.x", "layers[0].bias2")]
    [True, True, False]
    """
    return re.fullmatch(f"(?:{re.escape(pattern).replace(re.escape('*'), '.*')})(?:[.\\[].*)?", path) is not None


def _too_deep() -> TreeError:
    return TreeError(
        f"tree: containers lie more than {optree.MAX_RECURSION_DEPTH:,} deep in each other",
        hint="put the arrays into one list or dictionary, or stack them along an axis",
    )


def _keys(node: TreeDef) -> Sequence[Any]:
    """The keys, places or names of fields by which the children of a container are reached."""
    if node.kind == optree.PyTreeKind.NAMEDTUPLE:
        return optree.namedtuple_fields(cast(Any, node.type))
    if node.kind == optree.PyTreeKind.STRUCTSEQUENCE:
        return optree.structseq_fields(cast(Any, node.type))
    return node.entries()


def _spell(key: Any) -> str:
    return _spell_name(key) if isinstance(key, str) else f"[{key!r}]"


@functools.lru_cache(maxsize=4096, typed=True)
def _spell_name(key: str) -> str:
    if isinstance(key, Path):
        return key if key.startswith("[") else f".{key}"
    as_attribute = key.isidentifier() and not iskeyword(key)
    # Python reads an identifier in its normal form, which would be another key.
    return f".{key}" if as_attribute and normalize("NFKC", key) == key else f"[{key!r}]"


def _joined(root: str, path: str) -> str:
    return root + path if root else path.removeprefix(".")


@UNBROKEN
def _spread(value: Any, node: Any, path: str, values: list[Any]) -> None:
    if value is None or optree.tree_is_leaf(value, namespace=_SPACE):
        values.extend([value] * structure(node).num_leaves)
        return
    if node is None or optree.tree_is_leaf(node, namespace=_SPACE):
        _part(path, f"the prefix has a {_name(value)} where the tree has {_described(node)}")
    wanted, present = _children(value), _children(node)
    if type(value) is not type(node) and not (isinstance(value, Mapping) and isinstance(node, Mapping)):
        _part(path, f"the prefix has a {_name(value)} where the tree has a {_name(node)}")
    if wanted.keys() != present.keys():
        _part(path, _difference(wanted, present))
    for key, child in present.items():
        _spread(wanted[key], child, _joined(path, _spell(key)), values)


@UNBROKEN
def _children(node: Any) -> dict[Hashable, Any]:
    level = optree.tree_flatten_one_level(node, namespace=_SPACE)
    names = getattr(type(node), "_fields", level.entries)
    return dict(zip(names, level.children, strict=True))


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
