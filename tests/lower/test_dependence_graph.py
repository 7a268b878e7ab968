"""The topological order of fusion groups holds after every added dependence, and dependences are transitive."""

import random

import pytest

from wholestep.lower.fusion.iteration_space import DependenceGraph, FusionGroup


@pytest.mark.parametrize("seed", range(40))
def test_the_order_stands_and_dependences_are_found(seed: int) -> None:
    draw = random.Random(seed)
    graph, groups = DependenceGraph(), list[FusionGroup]()
    needed: dict[FusionGroup, set[FusionGroup]] = {}
    """The transitive dependences of each group, itself among them."""
    for _ in range(draw.randrange(2, 60)):
        group = FusionGroup({})
        graph.append(group)
        groups.append(group)
        needed[group] = {group}
        for _ in range(draw.randrange(4)):
            a, b = draw.sample(groups, 2) if len(groups) > 1 else (group, group)
            if a in needed[b]:
                continue
            graph.add(a, [b])
            for dependent in groups:
                if a in needed[dependent]:
                    needed[dependent] |= needed[b]
            assert [g.order for g in graph.sequence] == list(range(len(groups)))
            assert all(g.order > other.order for g in groups for other in g.dependencies)
    for a in groups:
        assert {b for b in groups if a.depends_on(b)} == needed[a]
