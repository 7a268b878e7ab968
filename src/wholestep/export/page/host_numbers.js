// Numbers of the host: every scalar operation of kernels, in every dtype, with the bits of the interpreter.
const F = Math.fround, DV = new DataView(new ArrayBuffer(8));
const bitsOf = (kind) => Number(kind.slice(1));
// The name of a method of views, such as getBigInt64 for i64.
const accessor = (verb, kind) => `${verb}${/[iu]64/.test(kind) ? "Big" : ""}${{ i: "Int", u: "Uint", f: "Float" }[kind[0]]}${bitsOf(kind)}`;
const read = (view, kind, at) => view[accessor("get", kind)](at, true);
const write = (view, kind, at, x) => view[accessor("set", kind)](at, x, true);
const word = (kind, bits) => { DV.setBigUint64(0, BigInt(bits), true); return kind === "bool" ? bits != 0 : read(DV, kind, 0); };
const whole = {
  i8: (x) => x << 24 >> 24,
  u8: (x) => x & 255,
  i16: (x) => x << 16 >> 16,
  u16: (x) => x & 65535,
  i32: (x) => x | 0,
  u32: (x) => x >>> 0,
  i64: (x) => BigInt.asIntN(64, x),
  u64: (x) => BigInt.asUintN(64, x),
  f32: F,
  f64: (x) => x,
  bool: (x) => x,
};
function halves(x) { const w = x * 134217729, h = w - (w - x); return [h, x - h]; }
function twoSum(a, b) { const s = a + b, t = s - a; return [s, a - (s - t) + (b - t)]; }
function odd(a, b) {
  const [s, rest] = twoSum(a, b);
  DV.setFloat64(0, s, true);
  const bits = DV.getBigInt64(0, true);
  if (rest === 0 || !Number.isFinite(s) || bits & 1n) return s;
  DV.setBigInt64(0, bits + ((rest > 0) === (s > 0) ? 1n : -1n), true);
  return DV.getFloat64(0, true);
}
// a * b + c with one rounding (Boldo and Melquiond), as the interpreter has it, for numbers that are not extreme;
// others are exact as integers times a power of two.
function parts(x) {
  DV.setFloat64(0, x, true);
  const bits = DV.getBigUint64(0, true), e = Number(bits >> 52n & 2047n), m = bits & 0xfffffffffffffn;
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
  const p = a * b, size = Math.abs(p), other = Math.abs(c);
  if (!(size > 1e-200 && size < 1e200 && Math.abs(a) < 1e150 && Math.abs(b) < 1e150 && (c === 0 || (other > 1e-200 && other < 1e200)))) return fma(a, b, c);
  if (c === 0) return p;
  const [ah, al] = halves(a), [bh, bl] = halves(b), low = ah * bh - p + ah * bl + al * bh + al * bl;
  const [ch, cl] = twoSum(c, low), [s, r] = twoSum(p, ch);
  return s + odd(r, cl);
}
const shifted = (kind, x, by, left) => {
  const bits = bitsOf(kind), n = Number(by);
  const big = n < 0 || n >= bits ? (left || x >= 0 ? 0n : -1n) : left ? BigInt(x) << BigInt(n) : BigInt(x) >> BigInt(n);
  return whole[kind](bits === 64 ? big : Number(BigInt.asIntN(64, big) & 0xffffffffn));
};
// An integer to be rounded to float32: what a float64 has no bits for is one bit, so that nothing is rounded twice.
const sticky = (x) => Number(BigInt.asIntN(53, x) === x ? x : (x >> 11n | BigInt((x & 2047n) !== 0n)) << 11n);
const OPS = {
  add: (t, a, b) => whole[t](a + b),
  sub: (t, a, b) => whole[t](a - b),
  div: (t, a, b) => whole[t](a / b),
  mul: (t, a, b) => (t === "i32" || t === "u32" ? whole[t](Math.imul(a, b)) : whole[t](a * b)),
  mulhi: (t, a, b) => Number(BigInt(a) * BigInt(b) >> 32n),
  neg: (t, a) => whole[t](-a),
  abs: (t, a) => whole[t](a < 0 ? -a : typeof a === "number" ? Math.abs(a) : a),
  fma: (t, a, b, c) => (t === "f32" ? F(odd(a * b, c)) : fast(a, b, c)),
  sqrt: (t, a) => whole[t](Math.sqrt(a)),
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
  and: (t, a, b) => (t === "bool" ? a && b : whole[t](a & b)),
  or: (t, a, b) => (t === "bool" ? a || b : whole[t](a | b)),
  xor: (t, a, b) => (t === "bool" ? a !== b : whole[t](a ^ b)),
  not: (t, a) => (t === "bool" ? !a : whole[t](~a)),
  shl: (t, a, b) => shifted(t, a, b, true),
  shr: (t, a, b) => shifted(t, a, b, false),
  select: (t, a, b, c) => (a ? b : c),
  quotient: (t, a, b) => (b == 0 ? whole[t](b) : whole[t](typeof a === "bigint" ? a / b : Math.trunc(a / b))),
  bits: (t, a, from) => { DV.setBigUint64(0, 0n, true); write(DV, from, 0, a); return read(DV, t, 0); },
  convert: (t, a) => {
    if (t === "bool") return a != 0;
    if (t === "i64" || t === "u64") return whole[t](BigInt(typeof a === "number" ? (Number.isFinite(a) ? Math.trunc(a) : 0) : a));
    if (t === "f32" && typeof a === "bigint") return F(sticky(a));
    return whole[t](t[0] !== "f" && typeof a === "bigint" ? Number(BigInt.asIntN(32, a)) : Number(a));
  },
};
// The values of known scalars: `given` are those when a step begins, `cases` those that switches take.
function parsed(text) {
  const [constants, operations] = text.split("|").map((part) => part.split(";").filter(Boolean).map((one) => one.split(" ")));
  const code = constants.map(([bits, kind = "f64"]) => ["const", kind, [], BigInt("0x" + bits)]);
  for (const [op, ...rest] of operations) {
    const kind = rest[0] in whole ? rest.shift() : "f64", number = (x, k) => (x === "=" ? code.at(-1)[2][k] : x[0] === "c" ? Number(x.slice(1)) : code.length - x);
    code.push(op === "given" || op === "case" ? [op, kind, [], rest[0]] : [op, kind, rest.map(number)]);
  }
  return code;
}
function computed(code, given, cases) {
  const values = [];
  for (const [op, kind, args, extra] of code) {
    if (op === "given") values.push(given[Number(extra)]);
    else if (op === "case") values.push(BigInt(cases[Number(extra)]));
    else if (op === "const") values.push(word(kind, extra));
    else values.push(OPS[op](kind, ...args.map((i) => values[i]), op === "bits" ? code[args[0]][1] : undefined));
  }
  return values;
}
const after = (step, given, values) => { const next = [...given]; for (const [i, n] of step.following) next[i] = values[n]; return next; };
