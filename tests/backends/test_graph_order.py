"""The order of a graph: a node waits for those before it that touch what it touches, one of both writing."""

from __future__ import annotations

import numpy as np
import pytest

from wholestep.runtime.gpu.graph_order import GraphOrder, TouchedBytes


def drawn(seed: int) -> list[list[TouchedBytes]]:
    """The bytes that some nodes touch, in a few places that overlap or lie apart."""
    rng = np.random.default_rng(seed)
    nodes = []
    for _ in range(30):
        begins, sizes = rng.integers(0, 40, 3), rng.integers(1, 12, 3)
        nodes.append(
            [TouchedBytes(int(b), int(b + n), bool(rng.integers(2))) for b, n in zip(begins, sizes, strict=True)]
        )
    return nodes


def meet(first: list[TouchedBytes], second: list[TouchedBytes]) -> bool:
    """True where nodes may not change places."""
    return any((a.written or b.written) and a.begin < b.end and b.begin < a.end for a in first for b in second)


@pytest.mark.parametrize("seed", range(40))
def test_all_that_meets_is_in_order_and_nothing_else_waits(seed: int) -> None:
    nodes, order = drawn(seed), GraphOrder()
    after: list[set[int]] = []
    for number, touched in enumerate(nodes):
        direct = order.before(touched)
        order.add(number, touched)
        assert all(meet(nodes[i], touched) for i in direct)
        after.append(set(direct).union(*[after[i] for i in direct]))
        assert all(i in after[number] for i in range(number) if meet(nodes[i], touched))
    assert set(order.ends()) == set(range(len(nodes))) - set().union(*after)


def test_what_has_nothing_in_common_waits_for_nothing() -> None:
    order = GraphOrder()
    for number in range(4):
        touched = [TouchedBytes(0, 8, False), TouchedBytes(8 * number + 8, 8 * number + 16, True)]
        assert order.before(touched) == []
        order.add(number, touched)
    assert order.before([TouchedBytes(0, 9, True)]) == [0, 1, 2, 3]
