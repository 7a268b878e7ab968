"""Trees come apart and go together again, and every leaf has the path a user would write."""

from collections import OrderedDict, defaultdict, namedtuple

import numpy as np
import pytest
from hypothesis import given, strategies as some

from wholestep import tree

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
