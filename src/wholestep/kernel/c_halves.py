"""Half precision in C, which has no type for it: words of 16 bits, and conversions from and to float32 by integers."""

from __future__ import annotations

HALVES = ("f16", "bf16")
"""The dtypes, by their short names, that are only stored: their values are words of 16 bits."""

FUNCTIONS = {
    "ws_from_bf16": "float ws_from_bf16(uint16_t x) { return ws_from_f32((uint32_t)x << 16); }",
    "ws_to_bf16": """\
uint16_t ws_to_bf16(float x) {
    const uint32_t bits = ws_bits_f32(x), top = bits >> 16;
    return (uint16_t)((bits & 0x7FFFFFFF) > 0x7F800000 ? top | 0x40 : (bits + (top & 1) + 0x7FFF) >> 16);
}""",
    "ws_from_f16": """\
float ws_from_f16(uint16_t x) {
    const uint32_t size = x & 0x7FFF, quiet = size > 0x7C00 ? 0x400000 : 0;
    const uint32_t wide = ((size << 13) + (size >= 0x7C00 ? 0x70000000 : 0x38000000)) | quiet;
    const uint32_t tiny = ws_bits_f32((float)(int32_t)size * 5.9604644775390625e-8f);
    return ws_from_f32((size < 0x400 ? tiny : wide) | (uint32_t)(x & 0x8000) << 16);
}""",
    "ws_to_f16": """\
uint16_t ws_to_f16(float x) {
    const uint32_t bits = ws_bits_f32(x), size = bits & 0x7FFFFFFF;
    const uint32_t tiny = ws_bits_f32(ws_from_f32(size) + 0.5f) - 0x3F000000;
    const uint32_t normal = (size - 0x38000000 + (size >> 13 & 1) + 0xFFF) >> 13;
    const uint32_t high = size > 0x7F800000 ? 0x7E00 | (size >> 13 & 0x3FF) : 0x7C00;
    const uint32_t found = size >= 0x47800000 ? high : size < 0x38800000 ? tiny : normal;
    return (uint16_t)(found | (bits & 0x80000000) >> 16);
}""",
    "ws_odd": """\
float ws_odd(double x) {
    const float near = (float)x;
    const uint32_t under = ws_bits_f32(near) - (uint32_t)(fabs((double)near) > fabs(x));
    return ws_from_f32(under | (uint32_t)((double)near < x || (double)near > x));
}""",
}
"""The conversions, rounded to nearest even, with the bits of the processors' own instructions: NaN becomes quiet, and
keeps the upper bits of its payload. Adding 0.5 rounds results that are subnormal.

`ws_odd` converts float64 to float32, rounded toward zero and with the last bit set if the result is inexact, so that
the conversion from there rounds only once (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved
algorithms using rounding to odd", IEEE Transactions on Computers 57(4), 2008).
"""
NEEDS = {name: ("ws_bits_f32", "ws_from_f32") for name in FUNCTIONS} | {"ws_from_bf16": ("ws_from_f32",)}
"""The functions that each of them calls."""


def half_definitions(head: str, *names: str) -> str:
    """Some of the functions, each after the keywords that begin a function in the language.

    >>> half_definitions("static inline", "ws_from_bf16")
    'static inline float ws_from_bf16(uint16_t x) { return ws_from_f32((uint32_t)x << 16); }\\n'
    """
    return "".join([f"{head} {FUNCTIONS[name]}\n" for name in names])
