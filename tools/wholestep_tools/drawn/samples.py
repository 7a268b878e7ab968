"""The samples of all primitives that a program may call by themselves."""

from __future__ import annotations

from collections.abc import Iterator

import wholestep.primitives  # noqa: F401  (fills the registry)
from wholestep.primitives.family import REGISTRY, Sample
from wholestep.testing.primitives import samples_of


def all_samples() -> Iterator[tuple[str, Sample]]:
    """Each sample of each primitive that is no loop, branch or sum over processes, with the primitive's name."""
    for name, primitive in sorted(REGISTRY.items()):
        if not primitive.nested and not primitive.collective:
            for sample in samples_of(primitive):
                yield name, sample
