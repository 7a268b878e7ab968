"""Trees come apart and go together again, and every leaf has the path a user would write."""

from collections import OrderedDict, defaultdict, namedtuple

import jax
import numpy as np
import pytest
from hypothesis import given, strategies as some

import wholestep as ws
from wholestep import tree
from wholestep.errors import ShapeError, TreeError

Point = namedtuple("Point", "x y")

TREES = some.recursive(
    some.none() | some.integers() | some.text(max_size=2),
    lambda inner: (
        some.lists(inner, max_size=3)
        | some.tuples(inner, inner)
        | some.dictionaries(some.text(max_size=3), inner, max_size=3)
        | some.builds(Point, inner, inner)
    ),
    max_leaves=12,
)


@given(TREES)
def test_unflatten_undoes_flatten(whole):
    leaves, treedef = tree.flatten(whole)
    assert tree.unflatten(treedef, leaves) == whole
    assert leaves == tree.leaves(whole)
    assert treedef == tree.structure(whole)
    assert len(tree.paths(whole)) == len(leaves)


@given(TREES)
def test_a_path_is_the_access_to_its_leaf(whole):
    class Dotted(dict):
        __getattr__ = dict.__getitem__

    def dotted(node):
        if isinstance(node, dict):
            return Dotted({key: dotted(value) for key, value in node.items()})
        if isinstance(node, Point):
            return Point(*map(dotted, node))
        return type(node)(map(dotted, node)) if isinstance(node, list | tuple) else node

    unshadowed = [path for path in tree.paths(whole, "root") if not any(hasattr(dict, p) for p in path.split("."))]
    found = dict(zip(tree.paths(whole, "root"), tree.leaves(whole), strict=True))
    for path in unshadowed:
        assert eval(path, {"root": dotted(whole)}) == found[path]


@given(TREES)
def test_leaves_with_paths_are_those_of_jax(whole):
    pairs = tree.leaves_with_path(whole)
    assert pairs == [*zip(tree.paths(whole), tree.leaves(whole), strict=True)]
    assert [leaf for _, leaf in pairs] == [leaf for _, leaf in jax.tree.leaves_with_path(whole)]
    assert tree.leaves(tree.map_with_path(lambda path, leaf: path, whole)) == tree.paths(whole)
    by_path = tree.leaves_with_path(tree.map_with_path(lambda path, leaf: f"{path} {leaf}", whole))
    assert by_path == [(path, f"{path} {leaf}") for path, leaf in pairs]
    taken = lambda so_far, leaf: (*so_far, leaf)  # noqa: E731
    assert tree.reduce(taken, whole, ()) == jax.tree.reduce(taken, whole, ()) == tuple(tree.leaves(whole))


@given(TREES, TREES)
def test_trees_of_trees_are_turned_inside_out_as_by_jax(outer, inner):
    outside, inside = tree.structure(outer), tree.structure(inner)
    nested = tree.map_with_path(lambda above, _: tree.map_with_path(lambda below, _: (above, below), inner), outer)
    turned = tree.transpose(outside, inside, nested)
    wanted = tree.map_with_path(lambda below, _: tree.map_with_path(lambda above, _: (above, below), outer), inner)
    assert turned == wanted
    if outside.num_leaves and inside.num_leaves:
        one = lambda x: jax.tree.structure(tree.map(lambda _: 0, x))  # noqa: E731
        numbers = tree.unflatten(outside, [tree.map(lambda _, k=k: k, inner) for k in range(outside.num_leaves)])
        assert tree.transpose(outside, None, numbers) == jax.tree.transpose(one(outer), one(inner), numbers)


def test_leaves_may_be_chosen_in_each_walk():
    whole, pair = [(1, 2), {"a": 3}], lambda node: isinstance(node, tuple)
    assert tree.leaves(whole, is_leaf=pair) == [(1, 2), 3]
    assert tree.map(len, [(1, 2), ()], is_leaf=pair) == [2, 0]
    assert tree.leaves_with_path(whole, is_leaf=pair) == [("[0]", (1, 2)), ("[1].a", 3)]
    assert tree.map_with_path(lambda path, x: (path, x), whole, is_leaf=pair) == [("[0]", (1, 2)), {"a": ("[1].a", 3)}]
    assert tree.reduce(lambda n, x: n + len(x), [(1, 2), (3,)], 0, is_leaf=pair) == 3
    empty = lambda node: node is None  # noqa: E731
    assert tree.map(lambda x, y: (x, y), [None, 1], [2, 3], is_leaf=empty) == [(None, 2), (1, 3)]


def test_a_path_goes_with_the_leaves_of_other_trees():
    assert tree.map_with_path(lambda path, x, y: (path, x + y), [1, (2,)], [10, (20,)]) == [
        ("[0]", 11),
        (("[1][0]", 22),),
    ]
    with pytest.raises(ValueError):
        tree.map_with_path(lambda path, x, y: x, [1, 2], [1])


def test_reductions_and_transposes_that_cannot_be():
    assert tree.reduce(max, [3, {"a": 5}]) == 5
    with pytest.raises(TreeError, match="the tree has no leaves"):
        tree.reduce(max, [])
    with pytest.raises(TreeError, match="the outer structure has no leaves"):
        tree.transpose(tree.structure([]), None, [])
    with pytest.raises(ValueError):
        tree.transpose(tree.structure([0, 0]), None, [(1,), (2, 3)])


def test_trees_are_a_public_name():
    assert "tree" in dir(ws) and ws.tree is tree


@given(TREES)
def test_a_tree_is_a_prefix_of_itself_and_a_value_of_every_tree(whole):
    filled = tree.map(lambda leaf: 1, whole)
    assert tree.prefix(filled, filled) == tree.leaves(filled)
    assert tree.prefix(None, whole) == [None] * len(tree.leaves(whole))
    assert tree.prefix(7, whole) == [7] * len(tree.leaves(whole))


def test_none_is_a_node_without_leaves():
    assert tree.flatten([None, 1, {"a": None}])[0] == [1]
    assert tree.unflatten(tree.structure([None, 1]), [2]) == [None, 2]


def test_a_leaf_can_be_chosen():
    assert tree.flatten([(1, 2), 3], is_leaf=lambda node: isinstance(node, tuple))[0] == [(1, 2), 3]


@pytest.mark.parametrize(
    "whole",
    [
        OrderedDict(b=1, a=2),
        defaultdict(list, {"b": 1, "a": [2]}),
        Point(1, Point(2, 3)),
        np.linalg.slogdet(np.eye(2)),
        {2: 1, "a": 2, (1, 2): 3},
        (),
        {},
    ],
    ids=repr,
)
def test_containers_keep_their_type(whole):
    leaves, treedef = tree.flatten(whole)
    again = tree.unflatten(treedef, leaves)
    assert type(again) is type(whole) and again == whole


def test_keys_are_sorted_in_a_dict_and_kept_in_an_ordered_one():
    assert tree.leaves({"b": 1, "a": 2}) == [2, 1]
    assert tree.leaves(OrderedDict(b=1, a=2)) == [1, 2]


def test_paths_are_spelled_as_accesses():
    whole = {
        "layers": [{"weight": 1, "class": 2}],
        "two words": (3, 4),
        "result": np.linalg.slogdet(np.eye(2)),
        "pair": Point(5, None),
    }
    assert tree.paths(whole, "params") == [
        "params.layers[0]['class']",
        "params.layers[0].weight",
        "params.pair.x",
        "params.result.sign",
        "params.result.logabsdet",
        "params['two words'][0]",
        "params['two words'][1]",
    ]
    assert tree.paths(whole)[1] == "layers[0].weight"
    assert tree.paths([1, {2: 3}]) == ["[0]", "[1][2]"]
    assert tree.paths(1) == [""] and tree.paths(1, "x") == ["x"]


def test_map_takes_several_trees_and_refuses_different_ones():
    assert tree.map(lambda x, y: x * y, {"a": 2, "b": (3,)}, {"a": 5, "b": (7,)}) == {"a": 10, "b": (21,)}
    with pytest.raises(ValueError):
        tree.map(max, [1, 2], [1])


def test_unflatten_counts_the_leaves():
    with pytest.raises(ValueError):
        tree.unflatten(tree.structure([1, 2]), [1])


def test_a_prefix_is_spread_over_the_leaves():
    whole = ({"a": 1, "b": [2, 3]}, Point(4, None), 5)
    assert tree.prefix((0, None, 1), whole) == [0, 0, 0, None, 1]
    assert tree.prefix(({"b": [None, 2], "a": 0}, Point(1, 1), None), whole) == [0, None, 2, 1, None]
    assert tree.prefix((OrderedDict(b=1, a=0), 2, 3), whole) == [0, 1, 1, 2, 3]


def test_mismatched_prefixes_name_the_path(golden):
    whole = ({"a": 1, "b": [2, 3]}, Point(4, None))
    wrong = [
        (0,),
        [0, 1],
        ({"a": 0}, 1),
        ({"a": 0, "b": [1]}, 1),
        ({"a": 0, "b": (1, 2)}, 1),
        ({"a": (0,), "b": 1}, 1),
        (0, Point(1, (2,))),
        (0, (1, 2)),
    ]
    messages = []
    for tree_prefix in wrong:
        with pytest.raises(ValueError) as caught:
            tree.prefix(tree_prefix, whole, root="in_axes")
        messages.append(str(caught.value))
    with pytest.raises(ValueError) as caught:
        tree.prefix((0,), whole)
    assert "\n".join([*messages, str(caught.value)]) == golden


def test_a_registered_class_is_a_node_of_ours_only():
    class Layer:
        def __init__(self, weight, name):
            self.weight, self.name = weight, name

    tree.register(Layer, lambda x: ((x.weight,), x.name, ("weight",)), lambda name, children: Layer(*children, name))
    twice = tree.map(lambda leaf: 2 * leaf, [Layer(3, "first")])
    assert twice[0].weight == 6 and twice[0].name == "first"
    assert tree.paths({"layers": twice}, "params") == ["params.layers[0].weight"]
    assert tree.structure(Layer(1, "a")) != tree.structure(Layer(1, "b"))
    assert tree.prefix([None], [Layer(1, "a")]) == [None]
    with pytest.raises(ValueError):
        tree.register(Layer, lambda x: ((), None), lambda _, children: None)


def test_a_tree_is_one_vector_and_comes_back():
    weights = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": [np.array([7.0]), 8.0], "n": np.int8(3)}
    vector, unravel = tree.ravel(weights)
    assert (vector.shape, vector.dtype) == ((9,), np.float64)
    for x, y in zip(tree.leaves(unravel(vector)), tree.leaves(weights), strict=True):
        np.testing.assert_array_equal(x, y)
        assert (np.shape(x), x.dtype) == (np.shape(y), np.asarray(y).dtype)

    def loss(weights):
        return np.sum(weights["w"] @ np.ones(3)) * weights["b"][1] + weights["b"][0][0] ** 2

    def of_vector(vector):
        return loss(unravel(vector))

    gradient = ws.grad(of_vector)(vector)
    np.testing.assert_array_equal(ws.jit(ws.grad(of_vector))(vector), gradient)
    floats = {name: weights[name] for name in "wb"}
    of_leaves = ws.jit(lambda w: tree.ravel(ws.grad(loss)(w))[0])(floats)
    np.testing.assert_array_equal(of_leaves, np.delete(gradient, 2))
    with pytest.raises(ShapeError, match="a vector of 9 elements makes the tree"):
        unravel(vector[1:])
    with pytest.raises(TreeError, match="no leaves"):
        tree.ravel({})


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ({"a": 0, "b": 0}, {"a": 0, "c": 0}, r"tree: the keys \['a', 'b'\], then the keys \['a', 'c'\]"),
        ({"a": [0, {"b": 0}], "c": 0}, {"a": [[1, 2], 0], "c": 0}, r"tree\.a\[1\]: a dict, then a leaf"),
        ([0, (0, 0)], [0, (0,)], r"tree\[1\]: 2 items, then 1 items"),
        (
            ws.nn.Linear(2, 3, key=0),
            ws.nn.frozen(ws.nn.Linear(2, 3, key=0)),
            r"weight: a parameter, then a frozen array",
        ),
    ],
)
def test_the_place_where_two_structures_differ_is_named(one, other, words):
    with pytest.raises(TreeError, match=f"tree: two structures differ: .*{words}"):
        tree.map(lambda x, y: x, one, other)
