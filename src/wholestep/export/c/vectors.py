"""Vector types of C compilers, for the accumulators of blocks: names, lanes, and their declarations."""

from __future__ import annotations

from typing import NamedTuple

from wholestep.kernel.lang import DType


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
WIDE = {"float32": VectorType("ws_f16", "float", 16), "float64": VectorType("ws_d8", "double", 8)}
"""The vectors of processors whose registers have 64 bytes: a block of sums fits these, and no others."""
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


def wide_declarations() -> str:
    """The types of 64 bytes; where no register has as many, a multiply-add is two of 32 bytes."""
    lines = []
    for kind, half, letters in ((WIDE["float32"], "f8", "ps"), (WIDE["float64"], "d4", "pd")):
        name, element, n = kind.name, kind.element, kind.lanes
        short, register = name[3:], "__m512" if letters == "ps" else "__m512d"
        lines += [
            f"typedef {element} {name} __attribute__((vector_size(64)));",
            f"typedef {element} {name}_at __attribute__((vector_size(64), aligned({64 // n}), may_alias));",
            f"#define {name}_of(x) (({name}){{{', '.join(['x'] * n)}}})",
            "#if defined(__AVX512F__)",
            f"#define ws_fma_{short}(a, b, c) "
            f"(({name})_mm512_fmadd_{letters}(({register})(a), ({register})(b), ({register})(c)))",
            "#elif defined(__FMA__) && defined(__AVX__)",
            f"typedef union {{ {name} whole; ws_{half} half[2]; }} {name}_halves;",
            f"#define ws_fma_{short}(a, b, c) (__extension__({{ \\",
            f"    {name}_halves a_ = {{a}}, b_ = {{b}}, c_ = {{c}}; \\",
            "    for (int i_ = 0; i_ < 2; i_++) \\",
            f"        c_.half[i_] = ws_fma_{half}(a_.half[i_], b_.half[i_], c_.half[i_]); \\",
            "    c_.whole; }))",
            "#else",
            f"#define ws_fma_{short}(a, b, c) ((a) * (b) + (c))",
            "#endif",
        ]
    return "\n".join(lines)


def vector_of(dtype: DType, lanes: int) -> VectorType | None:
    """The vector type for so many elements side by side; None for a dtype whose folds are not worked on in vectors."""
    wide = WIDE.get(dtype.name)
    return wide if wide is not None and wide.lanes == lanes else VECTORS.get(dtype.name)
