"""The target of graphics cards: workgroups with shared memory and barriers, and kernels in rows of work items."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wholestep.backends.gpu.collapse_folds import collapse_folds
from wholestep.backends.gpu.interchange_loops import interchange_loops
from wholestep.backends.gpu.matrix_products import tile_matrix_product
from wholestep.backends.gpu.share_columns import share_columns
from wholestep.backends.gpu.share_loops import FEW_POINTS, share_loops
from wholestep.backends.gpu.tile_products import tile_product
from wholestep.backends.gpu.tile_shapes import CUDA_SHARED, FEW_PROCESSORS, PLAIN_SHAPES, SHAPES, CardTiles
from wholestep.kernel.lang import Kernel, Space
from wholestep.lower.kernels.kernel_writer import KernelWriter
from wholestep.lower.target import AttentionLimits, DraftKernel, LookLimits, ReuseLimits, SplitLimits, Target

CARD_LOOKS = LookLimits(line=2**13, total=2**26, few=16)
"""Some 15 us of a large card: a merge sort takes more in its launches alone."""

CARD_REUSE = ReuseLimits(unshared=4096, apart=10)
"""The limits of memory reuse on cards: a few adjacent launches run about `apart` tasks. In a GPT block the arena is 16%
larger for it, and a larger distance saves no launch."""

CARD_SPLIT = SplitLimits(elements=2**13, results=64, sums=0, chunks=1024, terms=256)
"""A launch takes a card as long as a workgroup takes for some thousands of elements."""

CUDA_SPLIT = CARD_SPLIT._replace(sums=2**17, products=2**10)
"""Tiles of fewer results than these, over a thousand terms and more, leave processors of a large card without work."""


@dataclass(frozen=True)
class CardTarget(Target):
    """A card: a point of a kernel's grid is a work item, or a workgroup whose threads share the loops of the point.

    `trips` is the most trips of all loops of one work item; `tiles` are the tiles in which workgroups compute products,
    those of bfloat16 by matrix units if `matrices`; `columns` is the rows of threads that share folds down columns, and
    `rows` the least elements of a row that threads share; and `enough` points keep the card busy as work items.
    """

    name: str = "card"
    spaces: frozenset[Space] = frozenset({"global", "shared", "private"})
    barriers: bool = True
    launches_beside: bool = True
    reuse: ReuseLimits = CARD_REUSE
    split: SplitLimits | None = CARD_SPLIT
    trips: int | None = None
    looks: LookLimits | None = CARD_LOOKS
    tiles: CardTiles | None = None
    matrices: bool = False
    columns: int = 4
    rows: int = 129
    enough: int = FEW_POINTS

    def schedule(self, draft: DraftKernel) -> tuple[KernelWriter, Kernel]:
        found = draft(None, None)
        kernel = found.kernel()
        tiled = tile_matrix_product(kernel) if self.matrices else None
        if tiled is None and self.tiles is not None:
            tiled = tile_product(kernel, self.tiles)
        if tiled is None:
            tiled = share_columns(collapse_folds(kernel), self.enough, self.columns)
        return found, tiled or share_loops(collapse_folds(kernel), enough=self.enough, rows=self.rows)

    def schedule_in_order(self, kernel: Kernel) -> Kernel:
        return share_loops(interchange_loops(kernel), enough=self.enough, rows=self.rows)


PLAIN_TILES = CardTiles(PLAIN_SHAPES, shared=16 * 1024, least=2**17, chain=2**11, processors=FEW_PROCESSORS)
"""Tiles of cards of any maker, with the memory of a workgroup that all of them have."""

OPENCL = CardTarget("opencl", tiles=PLAIN_TILES)
"""Cards that OpenCL reaches."""

WEBGPU = CardTarget("webgpu", index_bits=32, doubles=False, trips=65_535, tiles=PLAIN_TILES)
"""Cards that WebGPU reaches. Mesa's lavapipe ends a work item's loops after 65,535 trips without a word, and drivers
reset cards that are busy for seconds."""

PAGE_TILES = PLAIN_TILES._replace(
    shapes=tuple([shape._replace(compact=True) for shape in PLAIN_SHAPES]), least=2**14, work=2**23
)
"""Tiles of pages: 16 workgroups keep a small card busy, and products of less work are not worth the bytes of a tile."""

PAGE = replace(WEBGPU, tiles=PAGE_TILES)
"""Cards that pages reach: their tiles have a short text, for products that take most of a step."""

CUDA = CardTarget(
    "cuda",
    reuse=CARD_REUSE._replace(unshared=2**18),
    split=CUDA_SPLIT,
    tiles=CardTiles(SHAPES, shared=CUDA_SHARED),
    matrices=True,
    columns=16,
    rows=64,
    attention=AttentionLimits(scores=2**25, block=512, narrow=True),
    enough=2**15,
)
"""NVIDIA cards that CUDA reaches, with the shared memory that kernels have without asking for more."""
