"""Vector types of C compilers, for the accumulators of blocks: names, lanes, and their declarations."""

from __future__ import annotations

from typing import NamedTuple

from wholestep.kernel.lang import DType

BYTES = 32


class VectorType(NamedTuple):
    """A vector of elements of a dtype, and the same at the place of any element."""

    name: str
    element: str
    lanes: int

    @property
    def loose(self) -> str:
        """The type by which memory is read and written."""
        return f"{self.name}_at"

    def splat(self, x: str) -> str:
        """A number in each lane."""
        return f"{self.name}_of({x})"


VECTORS = {"float32": VectorType("ws_f8", "float", 8), "float64": VectorType("ws_d4", "double", 4)}
DECLARATIONS = """\
typedef float ws_f8 __attribute__((vector_size(32)));
typedef double ws_d4 __attribute__((vector_size(32)));
typedef float ws_f8_at __attribute__((vector_size(32), aligned(4), may_alias));
typedef double ws_d4_at __attribute__((vector_size(32), aligned(8), may_alias));
#define ws_f8_of(x) ((ws_f8){x, x, x, x, x, x, x, x})
#define ws_d4_of(x) ((ws_d4){x, x, x, x})
#if defined(__FMA__) && defined(__AVX__)
#include <immintrin.h>
#define ws_fma_f8(a, b, c) ((ws_f8)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define ws_fma_d4(a, b, c) ((ws_d4)_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#elif defined(FP_FAST_FMAF) && defined(FP_FAST_FMA)
static inline ws_f8 ws_fma_f8(ws_f8 a, ws_f8 b, ws_f8 c) {
    for (int i = 0; i < 8; i++) c[i] = fmaf(a[i], b[i], c[i]);
    return c;
}
static inline ws_d4 ws_fma_d4(ws_d4 a, ws_d4 b, ws_d4 c) {
    for (int i = 0; i < 4; i++) c[i] = fma(a[i], b[i], c[i]);
    return c;
}
#else
#define ws_fma_f8(a, b, c) ((a) * (b) + (c))
#define ws_fma_d4(a, b, c) ((a) * (b) + (c))
#endif
"""
"""The types, as GCC and clang have them; a multiply-add is one instruction where there is one."""


def vector_of(dtype: DType) -> VectorType | None:
    """The vector type of a dtype; None for one whose folds are not worked on in vectors."""
    return VECTORS.get(dtype.name)
