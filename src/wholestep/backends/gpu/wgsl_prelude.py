"""The functions of WGSL modules: memory as one heap of words, integers of 64 bits, and float32 with all roundings.

But for long division they have no branches, `&&` and `||` included: compilers inline them, and some take minutes for
hundreds of branches.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MEMORY = """\
@group(0) @binding(0) var<uniform> launch: array<vec4<u32>, 64>;
@group(0) @binding(1) var<storage, read_write> heap: array<u32>;
@group(0) @binding(1) var<storage, read_write> atoms: array<atomic<u32>>;
"""
"""A kernel uses one of the two names of the heap: that of atomic words if it stores elements below 4 bytes."""

ACCESSES = """\
fn load_u32(b: u32, i: i32) -> u32 { return heap[b + u32(i)]; }
fn load_i32(b: u32, i: i32) -> i32 { return bitcast<i32>(heap[b + u32(i)]); }
fn load_f32(b: u32, i: i32) -> f32 { return bitcast<f32>(heap[b + u32(i)]); }
fn load_i64(b: u32, i: i32) -> vec2<u32> { let at = b + 2u * u32(i); return vec2<u32>(heap[at], heap[at + 1u]); }
fn load_u64(b: u32, i: i32) -> vec2<u32> { return load_i64(b, i); }
fn load_u8(b: u32, i: i32) -> u32 { let at = b + u32(i); return (heap[at >> 2u] >> (8u * (at & 3u))) & 0xffu; }
fn load_u16(b: u32, i: i32) -> u32 { let at = b + 2u * u32(i); return (heap[at >> 2u] >> (8u * (at & 3u))) & 0xffffu; }
fn load_i8(b: u32, i: i32) -> i32 { return bitcast<i32>(load_u8(b, i) << 24u) >> 24u; }
fn load_i16(b: u32, i: i32) -> i32 { return bitcast<i32>(load_u16(b, i) << 16u) >> 16u; }
fn load_bool(b: u32, i: i32) -> bool { return load_u8(b, i) != 0u; }
fn load_f16(b: u32, i: i32) -> u32 { return load_u16(b, i); }
fn load_bf16(b: u32, i: i32) -> u32 { return load_u16(b, i); }
fn store_u32(b: u32, i: i32, x: u32) { heap[b + u32(i)] = x; }
fn store_i32(b: u32, i: i32, x: i32) { heap[b + u32(i)] = bitcast<u32>(x); }
fn store_f32(b: u32, i: i32, x: f32) { heap[b + u32(i)] = bitcast<u32>(x); }
fn store_i64(b: u32, i: i32, x: vec2<u32>) { let at = b + 2u * u32(i); heap[at] = x.x; heap[at + 1u] = x.y; }
fn store_u64(b: u32, i: i32, x: vec2<u32>) { store_i64(b, i, x); }
"""

PARTS = """\
fn atomic_store_part(at: u32, x: u32, mask: u32) {
    let shift = 8u * (at & 3u);
    atomicAnd(&atoms[at >> 2u], ~(mask << shift));
    atomicOr(&atoms[at >> 2u], (x & mask) << shift);
}
fn atomic_store_u8(b: u32, i: i32, x: u32) { atomic_store_part(b + u32(i), x, 0xffu); }
fn atomic_store_u16(b: u32, i: i32, x: u32) { atomic_store_part(b + 2u * u32(i), x, 0xffffu); }
fn atomic_store_i8(b: u32, i: i32, x: i32) { atomic_store_u8(b, i, bitcast<u32>(x)); }
fn atomic_store_i16(b: u32, i: i32, x: i32) { atomic_store_u16(b, i, bitcast<u32>(x)); }
fn atomic_store_bool(b: u32, i: i32, x: bool) { atomic_store_u8(b, i, u32(x)); }
fn atomic_store_f16(b: u32, i: i32, x: u32) { atomic_store_u16(b, i, x); }
fn atomic_store_bf16(b: u32, i: i32, x: u32) { atomic_store_u16(b, i, x); }
"""
"""Elements below 4 bytes: no two work items write one, but they may write parts of one word."""

INTEGERS = """\
fn ws_word(i: i32) -> u32 { return launch[i >> 2u][i & 3i]; }
fn ws_wait() { storageBarrier(); workgroupBarrier(); }
fn ws_bool(x: bool) -> bool { return x; }
fn ws_f32(x: f32) -> f32 { return x; }
fn ws_i32(x: i32) -> i32 { return x; }
fn ws_u32(x: u32) -> u32 { return x; }
fn ws_i64(x: vec2<u32>) -> vec2<u32> { return x; }
fn ws_u64(x: vec2<u32>) -> vec2<u32> { return x; }
fn ws_wide_i32(x: i32) -> vec2<u32> { return vec2<u32>(bitcast<u32>(x), bitcast<u32>(x >> 31u)); }
fn ws_wide_u32(x: u32) -> vec2<u32> { return vec2<u32>(x, 0u); }
fn ws_less_u64(a: vec2<u32>, b: vec2<u32>) -> bool { return (a.y < b.y) | ((a.y == b.y) & (a.x < b.x)); }
fn ws_less_i64(a: vec2<u32>, b: vec2<u32>) -> bool {
    return ws_less_u64(vec2<u32>(a.x, a.y ^ 0x80000000u), vec2<u32>(b.x, b.y ^ 0x80000000u));
}
fn ws_add64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = a.x + b.x;
    return vec2<u32>(low, a.y + b.y + u32(low < a.x));
}
fn ws_sub64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return vec2<u32>(a.x - b.x, a.y - b.y - u32(a.x < b.x));
}
fn ws_mul32(a: u32, b: u32) -> vec2<u32> {
    let p = (a & 0xffffu) * (b & 0xffffu);
    let q = (a >> 16u) * (b & 0xffffu) + (p >> 16u);
    let r = (a & 0xffffu) * (b >> 16u) + (q & 0xffffu);
    return vec2<u32>(a * b, (a >> 16u) * (b >> 16u) + (q >> 16u) + (r >> 16u));
}
fn ws_mul64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = ws_mul32(a.x, b.x);
    return vec2<u32>(low.x, low.y + a.x * b.y + a.y * b.x);
}
fn ws_shl64(a: vec2<u32>, by: vec2<u32>) -> vec2<u32> {
    let n = by.x & 31u;
    let near = vec2<u32>(a.x << n, (a.y << n) | ((a.x >> 1u) >> (31u - n)));
    return select(select(near, vec2<u32>(0u, near.x), by.x >= 32u), vec2<u32>(), (by.y | (by.x >> 6u)) != 0u);
}
fn ws_shr_u64(a: vec2<u32>, by: vec2<u32>) -> vec2<u32> {
    let n = by.x & 31u;
    let near = vec2<u32>((a.x >> n) | ((a.y << 1u) << (31u - n)), a.y >> n);
    return select(select(near, vec2<u32>(near.y, 0u), by.x >= 32u), vec2<u32>(), (by.y | (by.x >> 6u)) != 0u);
}
fn ws_shr_i64(a: vec2<u32>, by: vec2<u32>) -> vec2<u32> {
    let sign = bitcast<u32>(bitcast<i32>(a.y) >> 31u);
    return ws_shr_u64(a ^ vec2<u32>(sign), by) ^ vec2<u32>(sign);
}
fn ws_shl_i32(a: i32, by: u32, bits: u32) -> i32 { return select(a << (by & 31u), 0i, by >= bits); }
fn ws_shl_u32(a: u32, by: u32, bits: u32) -> u32 { return select(a << (by & 31u), 0u, by >= bits); }
fn ws_shr_i32(a: i32, by: u32, bits: u32) -> i32 { return a >> min(by, 31u); }
fn ws_shr_u32(a: u32, by: u32, bits: u32) -> u32 { return select(a >> (by & 31u), 0u, by >= bits); }
fn ws_quotient_u32(a: u32, b: u32) -> u32 { return select(a / max(b, 1u), 0u, b == 0u); }
fn ws_quotient_i32(a: i32, b: i32) -> i32 {
    let q = ws_quotient_u32(bitcast<u32>(abs(a)), bitcast<u32>(abs(b)));
    return select(bitcast<i32>(q), bitcast<i32>(0u - q), (a < 0i) != (b < 0i));
}
fn ws_quotient_u64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    var q = a;
    if ((a.y | b.y) == 0u) {
        q.x = ws_quotient_u32(a.x, b.x);
    } else {
        var rest = vec2<u32>();
        for (var i = 0i; i < 64i; i++) {
            let out = rest.y >> 31u;
            rest = vec2<u32>((rest.x << 1u) | (q.y >> 31u), (rest.y << 1u) | (rest.x >> 31u));
            let fits = (out != 0u) | !ws_less_u64(rest, b);
            q = vec2<u32>((q.x << 1u) | u32(fits), (q.y << 1u) | (q.x >> 31u));
            rest = select(rest, ws_sub64(rest, b), fits);
        }
    }
    return select(q, vec2<u32>(), all(b == vec2<u32>()));
}
fn ws_signed64(a: vec2<u32>, sign: u32) -> vec2<u32> { let m = vec2<u32>(0u - sign); return ws_sub64(a ^ m, m); }
fn ws_abs64(a: vec2<u32>) -> vec2<u32> { return ws_signed64(a, a.y >> 31u); }
fn ws_quotient_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return ws_signed64(ws_quotient_u64(ws_abs64(a), ws_abs64(b)), (a.y ^ b.y) >> 31u);
}
"""

FLOATS = """\
fn ws_float(bits: u32) -> f32 { return bitcast<f32>(bits | launch[0].y); }
fn ws_kept(x: f32) -> f32 { return ws_float(bitcast<u32>(x)); }
fn ws_nan(x: f32) -> bool { return (bitcast<u32>(x) << 1u) > 0xff000000u; }
fn ws_lt(a: f32, b: f32) -> bool { return (a < b) & !ws_nan(a) & !ws_nan(b); }
fn ws_le(a: f32, b: f32) -> bool { return (a <= b) & !ws_nan(a) & !ws_nan(b); }
fn ws_eq(a: f32, b: f32) -> bool { return (a == b) & !ws_nan(a) & !ws_nan(b); }
fn ws_ne(a: f32, b: f32) -> bool { return !ws_eq(a, b); }
fn ws_f32_u64(a: vec2<u32>) -> f32 {
    let zeros = countLeadingZeros(a.y);
    let m = ws_shl64(a, vec2<u32>(zeros, 0u));
    return ws_kept(f32(m.y | u32(m.x != 0u)) * bitcast<f32>((159u - zeros) << 23u));
}
fn ws_f32_i64(a: vec2<u32>) -> f32 {
    let x = ws_f32_u64(ws_abs64(a));
    return bitcast<f32>(bitcast<u32>(x) | (a.y & 0x80000000u));
}
fn ws_whole(bits: u32) -> vec2<u32> {
    let e = (bits >> 23u) & 0xffu;
    let m = (bits & 0x7fffffu) | 0x800000u;
    let small = vec2<u32>(m >> min(max(150u, e) - e, 31u), 0u);
    return select(ws_shl64(vec2<u32>(m, 0u), vec2<u32>(max(150u, e) - 150u, 0u)), small, e < 150u);
}
fn ws_cut(x: f32) -> vec2<u32> {
    let bits = bitcast<u32>(x);
    let found = ws_signed64(ws_whole(bits), bits >> 31u);
    return select(found, vec2<u32>(0u, 0x80000000u), (bits & 0x7fffffffu) >= 0x5f000000u);
}
fn ws_cut_up(x: f32) -> vec2<u32> {
    let bits = bitcast<u32>(x);
    return select(select(ws_whole(bits), vec2<u32>(), bits >= 0x5f800000u), ws_cut(x), bits >> 31u != 0u);
}
fn ws_from_bf16(x: u32) -> f32 { return ws_float(x << 16u); }
fn ws_to_bf16(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let top = bits >> 16u;
    return select((bits + (top & 1u) + 0x7fffu) >> 16u, top | 0x40u, ws_nan(x));
}
fn ws_from_f16(x: u32) -> f32 {
    let size = x & 0x7fffu;
    let wide = (size << 13u) + select(0x38000000u, 0x70000000u, size >= 0x7c00u);
    let tiny = bitcast<u32>(f32(size) * 5.9604645e-8f);
    return bitcast<f32>(select(wide, tiny, size < 0x400u) | ((x & 0x8000u) << 16u));
}
fn ws_to_f16(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let size = bits & 0x7fffffffu;
    let tiny = bitcast<u32>(ws_kept(bitcast<f32>(size) + 0.5f)) - 0x3f000000u;
    let normal = (size - 0x38000000u + ((size >> 13u) & 1u) + 0xfffu) >> 13u;
    let large = select(0x7c00u, 0x7e00u, size > 0x7f800000u);
    return select(select(normal, tiny, size < 0x38800000u), large, size >= 0x47800000u) | ((bits & 0x80000000u) >> 16u);
}
"""


def atomic_accesses() -> str:
    """The functions that load and store elements, by the atomic words of the heap."""
    text = re.sub(r"heap\[(.*?)\] = (.*?);", r"atomicStore(&atoms[\1], \2);", ACCESSES)
    return re.sub(r"\b(load|store)_", r"atomic_\1_", re.sub(r"heap\[(.*?)\]", r"atomicLoad(&atoms[\1])", text))


FUNCTIONS = ACCESSES + atomic_accesses() + PARTS + INTEGERS + FLOATS


def called_functions(kernels: Sequence[str], functions: str) -> list[str]:
    """Those functions that the text of kernels calls, directly or not, in their order."""
    bodies = {
        re.split(r"\W", text, maxsplit=2)[1]: text
        for text in re.findall(r"^fn [^\n]*(?:\n(?!fn )[^\n]+)*", functions, re.M)
    }
    found: set[str] = set()
    waiting = [*kernels]
    while waiting:
        called = set(re.findall(r"\w+(?=\()", waiting.pop())) & bodies.keys() - found
        found |= called
        waiting += [bodies[name] for name in called]
    return [text for name, text in bodies.items() if name in found]
