"""Every law on every primitive of the registry; no primitive is named here."""

import numpy as np
import pytest

import wholestep.primitives  # noqa: F401  (fills the registry)
from wholestep.primitives.family import REGISTRY, Primitive
from wholestep.testing.primitives import check_sample, samples_of

ALL = sorted(REGISTRY)
CALLS = [(name, i) for name in ALL for i in range(len(samples_of(REGISTRY[name])))]


@pytest.mark.parametrize("name", ALL)
def test_a_primitive_gives_samples(name: str) -> None:
    primitive: Primitive = REGISTRY[name]
    assert samples_of(primitive) or primitive.nested or primitive.collective


@pytest.mark.parametrize(("name", "i"), CALLS, ids=[f"{name}-{i}" for name, i in CALLS])
def test_every_law_holds(name: str, i: int) -> None:
    primitive = REGISTRY[name]
    check_sample(primitive, samples_of(primitive)[i], np.random.default_rng(i), first=i == 0)
