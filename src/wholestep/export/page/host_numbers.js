// Numbers of the host: every scalar operation of kernels, in every dtype, with the bits of the interpreter.
const F = Math.fround;
// The typed arrays of dtypes, and one number as each of them, in the same 8 bytes.
const KINDS = {
  bool: Uint8Array, i8: Int8Array, u8: Uint8Array, i16: Int16Array, u16: Uint16Array, i32: Int32Array, u32: Uint32Array,
  i64: BigInt64Array, u64: BigUint64Array, f32: Float32Array, f64: Float64Array,
};
const CELL = new ArrayBuffer(8);
const CELLS = Object.fromEntries(Object.entries(KINDS).map(([kind, Kind]) => [kind, new Kind(CELL, 0, 1)]));
// A number of one dtype read as another, of the same width or after zeros.
function bitsAs(kind, x, from) {
  CELLS.u64[0] = 0n;
  CELLS[from][0] = x;
  return CELLS[kind][0];
}
const word = (kind, bits) => (kind === "bool" ? bits != 0 : bitsAs(kind, BigInt(bits), "u64"));
// A result as a number of its dtype: integers wrap, and float32 is rounded.
function whole(kind, x) {
  if (kind === "bool") return x;
  CELLS[kind][0] = x;
  return CELLS[kind][0];
}
// The name of a method of views, such as getBigInt64 for i64.
const named = (verb, kind) => verb + KINDS[kind].name.replace("Array", "");
const read = (view, kind, at) => view[named("get", kind)](at, true);
const write = (view, kind, at, x) => view[named("set", kind)](at, x, true);
function halves(x) {
  const w = x * 134217729, h = w - (w - x);
  return [h, x - h];
}
function twoSum(a, b) {
  const s = a + b, t = s - a;
  return [s, a - (s - t) + (b - t)];
}
function odd(a, b) {
  const [s, rest] = twoSum(a, b);
  const bits = bitsAs("i64", s, "f64");
  if (rest === 0 || !Number.isFinite(s) || bits & 1n) return s;
  return bitsAs("f64", bits + ((rest > 0) === (s > 0) ? 1n : -1n), "i64");
}
// a * b + c with one rounding (Boldo and Melquiond), as the interpreter has it, for numbers that are not extreme;
// others are exact as integers times a power of two.
function parts(x) {
  const bits = bitsAs("u64", x, "f64"), e = Number(bits >> 52n & 2047n), m = bits & 0xfffffffffffffn;
  return [(x < 0 ? -1n : 1n) * (e ? m | 1n << 52n : m), (e || 1) - 1075];
}
function nearest(m, e) {
  const size = (m < 0n ? -m : m), length = size.toString(2).length, shift = Math.max(length - 53, -1074 - e);
  let q = size;
  if (shift > 0) {
    const s = BigInt(shift), rest = size & ((1n << s) - 1n), half = 1n << (s - 1n);
    q = size >> s;
    if (rest > half || (rest === half && q & 1n)) q += 1n;
  }
  const found = Number(q) * 2 ** (e + Math.max(shift, 0));
  return m < 0n ? -found : found;
}
function fma(a, b, c) {
  if (!Number.isFinite(a) || !Number.isFinite(b) || a === 0 || b === 0) return a * b + c;
  // A summand that is infinite stays so, however large the product is.
  if (!Number.isFinite(c)) return c;
  const [m, i] = parts(a), [n, j] = parts(b), [k, l] = parts(c), e = Math.min(i + j, l);
  const sum = (m * n << BigInt(i + j - e)) + (k << BigInt(l - e));
  return sum === 0n ? 0 : nearest(sum, e);
}
function fast(a, b, c) {
  const p = a * b, within = (x, low, high) => Math.abs(x) > low && Math.abs(x) < high;
  const plain = within(p, 1e-200, 1e200) && within(a, 0, 1e150) && within(b, 0, 1e150);
  if (!plain || !(c === 0 || within(c, 1e-200, 1e200))) return fma(a, b, c);
  if (c === 0) return p;
  const [ah, al] = halves(a), [bh, bl] = halves(b), low = ah * bh - p + ah * bl + al * bh + al * bl;
  const [ch, cl] = twoSum(c, low), [s, r] = twoSum(p, ch);
  return s + odd(r, cl);
}
const shifted = (kind, x, by, left) => {
  const bits = 8 * KINDS[kind].BYTES_PER_ELEMENT, n = Number(by);
  const big = n < 0 || n >= bits ? (left || x >= 0 ? 0n : -1n) : left ? BigInt(x) << BigInt(n) : BigInt(x) >> BigInt(n);
  return whole(kind, bits === 64 ? big : Number(BigInt.asIntN(64, big) & 0xffffffffn));
};
// An integer to be rounded to float32: what a float64 has no bits for is one bit, so that nothing is rounded twice.
const sticky = (x) => Number(BigInt.asIntN(53, x) === x ? x : (x >> 11n | BigInt((x & 2047n) !== 0n)) << 11n);
const OPS = {
  add: (t, a, b) => whole(t, a + b),
  sub: (t, a, b) => whole(t, a - b),
  div: (t, a, b) => whole(t, a / b),
  mul: (t, a, b) => (t === "i32" || t === "u32" ? whole(t, Math.imul(a, b)) : whole(t, a * b)),
  mulhi: (t, a, b) => Number(BigInt(a) * BigInt(b) >> 32n),
  neg: (t, a) => whole(t, -a),
  abs: (t, a) => whole(t, a < 0 ? -a : typeof a === "number" ? Math.abs(a) : a),
  fma: (t, a, b, c) => (t === "f32" ? F(odd(a * b, c)) : fast(a, b, c)),
  sqrt: (t, a) => whole(t, Math.sqrt(a)),
  floor: (t, a) => Math.floor(a),
  ceil: (t, a) => Math.ceil(a),
  trunc: (t, a) => Math.trunc(a),
  rint: (t, a) => { const r = Math.round(a); return r - a === 0.5 && r % 2 ? r - 1 : r; },
  exact: (t, a) => a,
  isfinite: (t, a) => Number.isFinite(a),
  isnan: (t, a) => Number.isNaN(a),
  min: (t, a, b) => (a < b ? a : b),
  max: (t, a, b) => (a > b ? a : b),
  eq: (t, a, b) => a === b,
  ne: (t, a, b) => a !== b,
  lt: (t, a, b) => a < b,
  le: (t, a, b) => a <= b,
  and: (t, a, b) => (t === "bool" ? a && b : whole(t, a & b)),
  or: (t, a, b) => (t === "bool" ? a || b : whole(t, a | b)),
  xor: (t, a, b) => (t === "bool" ? a !== b : whole(t, a ^ b)),
  not: (t, a) => (t === "bool" ? !a : whole(t, ~a)),
  shl: (t, a, b) => shifted(t, a, b, true),
  shr: (t, a, b) => shifted(t, a, b, false),
  select: (t, a, b, c) => (a ? b : c),
  quotient: (t, a, b) => (b == 0 ? whole(t, b) : whole(t, typeof a === "bigint" ? a / b : Math.trunc(a / b))),
  bits: (t, a, from) => bitsAs(t, a, from),
  convert: (t, a) => {
    if (t === "bool") return a != 0;
    const big = t === "i64" || t === "u64";
    if (big && typeof a === "number") return whole(t, BigInt(Number.isFinite(a) ? Math.trunc(a) : 0));
    if (big) return whole(t, BigInt(a));
    if (t === "f32" && typeof a === "bigint") return F(sticky(a));
    return whole(t, t[0] !== "f" && typeof a === "bigint" ? Number(BigInt.asIntN(32, a)) : Number(a));
  },
};
// The values of known scalars: `given` are those when a step begins, `cases` those that switches take.
function parsed(text) {
  const words = (part) => part.split(";").filter(Boolean).map((one) => one.split(" "));
  const [constants, operations] = text.split("|").map(words);
  const code = constants.map(([bits, kind = "f64"]) => ["const", kind, [], word(kind, `0x${bits}`)]);
  for (const [op, ...rest] of operations) {
    const kind = rest[0] in KINDS ? rest.shift() : "f64";
    const number = (x, k) => (x === "=" ? code.at(-1)[2][k] : x[0] === "c" ? Number(x.slice(1)) : code.length - x);
    code.push(op === "given" || op === "case" ? [op, kind, [], Number(rest[0])] : [op, kind, rest.map(number)]);
  }
  return code;
}
function computed(code, given, cases) {
  const values = [];
  for (const [op, kind, args, extra] of code) {
    if (op === "given") values.push(given[extra]);
    else if (op === "case") values.push(BigInt(cases[extra]));
    else if (op === "const") values.push(extra);
    else values.push(OPS[op](kind, ...args.map((i) => values[i]), op === "bits" ? code[args[0]][1] : undefined));
  }
  return values;
}
// The scalars after a step that began with `given`.
function after(step, given, values) {
  const next = [...given];
  for (const [i, n] of step.following) next[i] = values[n];
  return next;
}
