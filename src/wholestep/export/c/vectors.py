"""Vector types of C compilers, for the accumulators of blocks: names, lanes, and their declarations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from wholestep.kernel.c_halves import HALVES
from wholestep.kernel.lang import DType


class VectorType(NamedTuple):
    """A vector of elements of a dtype, and the same at the place of any element."""

    name: str
    element: str
    lanes: int

    @property
    def short(self) -> str:
        """The name without its prefix."""
        return self.name[3:]

    @property
    def nbytes(self) -> int:
        """The bytes of a vector."""
        return self.lanes * {"float": 4, "double": 8}[self.element]

    @property
    def loose(self) -> str:
        """The type by which memory is read and written."""
        return f"{self.name}_at"

    def splat(self, x: str) -> str:
        """A number in each lane."""
        return f"{self.name}_of({x})"

    def gathered(self, parts: Sequence[str]) -> str:
        """A number for each lane."""
        return f"{self.name}_with({', '.join(parts)})"

    def applied(self, op: str, *args: str) -> str:
        """An operation on vectors."""
        return f"ws_{op}_{self.short}({', '.join(args)})"


VECTORS = {"float32": VectorType("ws_f8", "float", 8), "float64": VectorType("ws_d4", "double", 4)}
WIDE = {"float32": VectorType("ws_f16", "float", 16), "float64": VectorType("ws_d8", "double", 8)}
"""The vectors of processors whose registers have 64 bytes: only a block of sums uses them."""
IN_VECTORS = {"add": "(a) + (b)", "sub": "(a) - (b)", "mul": "(a) * (b)", "div": "(a) / (b)", "neg": "-(a)"}
"""Operations on vectors, as GCC and clang spell them; there is a multiply-add besides."""
FUSED = """\
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
"""The multiply-adds of 32 bytes: one instruction where there is one."""


INSTRUCTIONS = {
    "ws_f8": ("__F16C__", "_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p)))"),
    "ws_f16": ("__AVX512F__", "_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(p)))"),
}
"""The compiler macro for an instruction that widens float16, and the instruction."""


def used_declarations(text: str) -> str:
    """The types and macros that a text needs: none where it has no vectors."""
    wide = re.search(r"\bws_(f16|d8)\b", text)
    if not wide and not re.search(r"\bws_(f8|d4)\b", text):
        return ""
    kinds = [*VECTORS.values(), *(WIDE.values() if wide else ())]
    halves = [
        (half, kind)
        for kind in kinds
        if kind.element == "float"
        for half in HALVES
        if re.search(rf"\bws_from_{half}_{kind.short}\b", text)
    ]
    vectors = [*[vector_types(kind, text) for kind in kinds], FUSED, wide_multiply_adds() if wide else ""]
    vectors += [widening(half, kind) for half, kind in halves]
    arrays = [*[array_types(kind, text) for kind in kinds], *[widening_in_arrays(half, kind) for half, kind in halves]]
    return "".join(["#if defined(__GNUC__) && !defined(WS_NO_VECTORS)\n", *vectors, "#else\n", *arrays, "#endif\n"])


def operations_in(text: str, kind: VectorType, spelled: dict[str, str]) -> list[tuple[str, str]]:
    """The operations on a type that a text has, each with how it is spelled."""
    return [(op, how) for op, how in spelled.items() if kind.applied(op).removesuffix(")") in text]


def vector_types(kind: VectorType, text: str) -> str:
    """A type, and its operations that a text has, as GCC and clang have them."""
    name, element, n = kind.name, kind.element, kind.lanes
    size = kind.nbytes
    lines = [
        f"typedef {element} {name} __attribute__((vector_size({size})));",
        f"typedef {element} {kind.loose} __attribute__((vector_size({size}), aligned({size // n}), may_alias));",
        f"#define {name}_of(x) (({name}){{{', '.join(['x'] * n)}}})",
        *([f"#define {name}_with(...) (({name}){{__VA_ARGS__}})"] if f"{name}_with" in text else []),
        *[
            f"#define {kind.applied(op, *operand_names(op))} ({how})"
            for op, how in operations_in(text, kind, IN_VECTORS)
        ],
    ]
    return "\n".join([*lines, ""])


def array_types(kind: VectorType, text: str) -> str:
    """The declarations for compilers without vectors, with an array in the place of a vector."""
    name, element, n = kind.name, kind.element, kind.lanes
    fused = f"ws_fma{'f' if element == 'float' else ''}((a), (b), (c))"
    filled = f"{name} a; for (int i = 0; i < {n}; i++) a.x[i] = x; return a;"
    lines = [
        f"typedef struct {{ {element} x[{n}]; }} {name}, {kind.loose};",
        f"static inline {name} {name}_of({element} x) {{ {filled} }}",
        *([f"#define {name}_with(...) (({name}){{{{__VA_ARGS__}}}})"] if f"{name}_with" in text else []),
    ]
    for op, how in operations_in(text, kind, {**IN_VECTORS, "fma": fused}):
        given = operand_names(op)
        head = kind.applied(op, *[f"{name} {x}" for x in given])
        each = re.sub(r"\(([abc])\)", r"\1.x[i]", how)
        lines.append(f"static inline {name} {head} {{ for (int i = 0; i < {n}; i++) a.x[i] = {each}; return a; }}")
    return "\n".join([*lines, ""])


def operand_names(op: str) -> str:
    """The names of the operands of an operation, a letter each."""
    return {"neg": "a", "fma": "abc"}.get(op, "ab")


def widening(half: str, kind: VectorType) -> str:
    """The macro that reads a vector of half precision as float32."""
    name, n = f"ws_from_{half}_{kind.short}", kind.lanes
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


def widening_in_arrays(half: str, kind: VectorType) -> str:
    """The same for compilers without vectors."""
    body = f"{kind.name} a; for (int i = 0; i < {kind.lanes}; i++) a.x[i] = ws_from_{half}(p[i]); return a;"
    return f"static inline {kind.name} ws_from_{half}_{kind.short}(const uint16_t *p) {{ {body} }}\n"


def wide_multiply_adds() -> str:
    """The multiply-adds of 64 bytes; where no register has as many, one is two of 32 bytes."""
    lines = []
    for kind, half, letters in ((WIDE["float32"], "f8", "ps"), (WIDE["float64"], "d4", "pd")):
        name, short = kind.name, kind.short
        register = "__m512" if letters == "ps" else "__m512d"
        lines += [
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
    """The vector type of `lanes` elements; None for a dtype whose folds are not vectorized."""
    wide = WIDE.get(dtype.name)
    return wide if wide is not None and wide.lanes == lanes else VECTORS.get(dtype.name)
