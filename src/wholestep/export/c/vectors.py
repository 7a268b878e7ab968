"""Vector types of C compilers, for the accumulators of blocks: names, lanes, and their declarations."""

from __future__ import annotations

import re
from typing import NamedTuple

from wholestep.kernel.c_halves import HALVES
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


INSTRUCTIONS = {
    "ws_f8": ("__F16C__", "_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p)))"),
    "ws_f16": ("__AVX512F__", "_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(p)))"),
}
"""The macro of compilers that says that float16 is widened by an instruction, and that instruction."""


def used_declarations(text: str) -> str:
    """The types and macros that a text needs: none where it has no vectors."""
    wide = re.search(r"\bws_(f16|d8)\b", text)
    if not wide and not re.search(r"\bws_(f8|d4)\b", text):
        return ""
    kinds = (VECTORS["float32"], WIDE["float32"])
    halves = [
        widening(half, k) for k in kinds for half in HALVES if re.search(rf"\bws_from_{half}_{k.name[3:]}\b", text)
    ]
    return DECLARATIONS + (wide_declarations() if wide else "") + "".join(halves)


def widening(half: str, kind: VectorType) -> str:
    """The macro that reads a vector of half precision as float32."""
    name, n = f"ws_from_{half}_{kind.name[3:]}", kind.lanes
    lines = [
        f"#define {name}(p) (__extension__({{ \\",
        f"    const uint16_t *p_ = (p); float y_[{n}]; \\",
        f"    for (int i_ = 0; i_ < {n}; i_++) y_[i_] = ws_from_{half}(p_[i_]); \\",
        f"    *(const {kind.loose} *)y_; }}))",
    ]
    if half == "f16":
        macro, instruction = INSTRUCTIONS[kind.name]
        own = [f"#if defined({macro})", "#include <immintrin.h>", f"#define {name}(p) (({kind.name}){instruction})"]
        lines = [*own, "#else", *lines, "#endif"]
    return "\n".join([*lines, ""])


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
    return "\n".join([*lines, ""])


def vector_of(dtype: DType, lanes: int) -> VectorType | None:
    """The vector type for so many elements side by side; None for a dtype whose folds are not worked on in vectors."""
    wide = WIDE.get(dtype.name)
    return wide if wide is not None and wide.lanes == lanes else VECTORS.get(dtype.name)
