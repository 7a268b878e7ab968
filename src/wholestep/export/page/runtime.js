// The step in a worker: one heap, a list of dispatches, several steps a submit, losses read back.
const F = Math.fround, DV = new DataView(new ArrayBuffer(8));
const BYTES = { i8: 1, u8: 1, i16: 2, u16: 2, f32: 4, i32: 4, u32: 4, f64: 8, i64: 8, u64: 8 };
const GET = { i8: "getInt8", u8: "getUint8", i16: "getInt16", u16: "getUint16", f32: "getFloat32", f64: "getFloat64", i32: "getInt32", u32: "getUint32", i64: "getBigInt64", u64: "getBigUint64" };
const read = (view, kind, at) => view[GET[kind]](at, true);
const write = (view, kind, at, x) => view[GET[kind].replace("get", "set")](at, x, true);
const word = (kind, bits) => { DV.setBigUint64(0, BigInt(bits), true); return kind === "bool" ? bits != 0 : read(DV, kind, 0); };
const whole = { i8: (x) => x << 24 >> 24, u8: (x) => x & 255, i16: (x) => x << 16 >> 16, u16: (x) => x & 65535, i32: (x) => x | 0, u32: (x) => x >>> 0, i64: (x) => BigInt.asIntN(64, x), u64: (x) => BigInt.asUintN(64, x), f32: F, f64: (x) => x, bool: (x) => x };
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
  const power = e + Math.max(shift, 0), low = Math.max(power, -1000);
  const found = Number(q) * 2 ** Math.min(low, 900) * 2 ** (power - low) * 2 ** (low - Math.min(low, 900));
  return m < 0n ? -found : found;
}
function fma(a, b, c) {
  const plain = a * b + c;
  if (!Number.isFinite(a * b) && (!Number.isFinite(a) || !Number.isFinite(b))) return plain;
  if (!Number.isFinite(c) || a === 0 || b === 0) return plain;
  if (c === 0) return a * b;
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
const even = (x) => { const r = Math.round(x); return r - x === 0.5 && r % 2 ? r - 1 : r; };
const shifted = (kind, x, by, left) => {
  const bits = 8 * BYTES[kind], n = Number(by);
  const big = n < 0 || n >= bits ? (left || x >= 0 ? 0n : -1n) : left ? BigInt(x) << BigInt(n) : BigInt(x) >> BigInt(n);
  return whole[kind](bits === 64 ? big : Number(BigInt.asIntN(64, big) & 0xffffffffn));
};
// An integer to be rounded to float32: what a float64 has no bits for is one bit, so that nothing is rounded twice.
const sticky = (x) => Number(BigInt.asIntN(53, x) === x ? x : (x >> 11n | BigInt((x & 2047n) !== 0n)) << 11n);
const OPS = {
  add: (t, a, b) => whole[t](a + b), sub: (t, a, b) => whole[t](a - b), div: (t, a, b) => whole[t](a / b),
  mul: (t, a, b) => (t === "i32" || t === "u32" ? whole[t](Math.imul(a, b)) : whole[t](a * b)), mulhi: (t, a, b) => Number(BigInt(a) * BigInt(b) >> 32n),
  neg: (t, a) => whole[t](-a), abs: (t, a) => whole[t](a < 0 ? -a : typeof a === "number" ? Math.abs(a) : a),
  fma: (t, a, b, c) => (t === "f32" ? F(odd(a * b, c)) : fast(a, b, c)), sqrt: (t, a) => whole[t](Math.sqrt(a)),
  floor: (t, a) => Math.floor(a), ceil: (t, a) => Math.ceil(a), trunc: (t, a) => Math.trunc(a), rint: (t, a) => even(a), exact: (t, a) => a,
  isfinite: (t, a) => Number.isFinite(a), isnan: (t, a) => Number.isNaN(a),
  min: (t, a, b) => (a < b ? a : b), max: (t, a, b) => (a > b ? a : b),
  eq: (t, a, b) => a === b, ne: (t, a, b) => a !== b, lt: (t, a, b) => a < b, le: (t, a, b) => a <= b,
  and: (t, a, b) => (t === "bool" ? a && b : whole[t](a & b)), or: (t, a, b) => (t === "bool" ? a || b : whole[t](a | b)),
  xor: (t, a, b) => (t === "bool" ? a !== b : whole[t](a ^ b)), not: (t, a) => (t === "bool" ? !a : whole[t](~a)),
  shl: (t, a, b) => shifted(t, a, b, true), shr: (t, a, b) => shifted(t, a, b, false),
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
  return text.split(";").map((one, i) => {
    const [op, kind, ...rest] = one.split(" ");
    return op === "const" || op === "given" || op === "case" ? [op, kind, [], BigInt("0x" + rest[0])] : [op, kind, rest.map((back) => i - back)];
  });
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
const latin = (text) => Uint8Array.from(text, (c) => c.charCodeAt(0));
const bytes = (text) => latin(atob(text));
const hex = async (x) => Array.from(new Uint8Array(await crypto.subtle.digest("SHA-256", x)), (b) => b.toString(16).padStart(2, "0")).join("");

const CONTROL = `
@group(0) @binding(0) var<uniform> order: array<vec4<u32>, 16>;
@group(0) @binding(1) var<storage, read_write> heap: array<u32>;
@group(0) @binding(2) var<storage, read_write> rows: array<u32>;
@group(0) @binding(3) var<storage, read_write> status: array<u32>;
fn at(i: u32) -> u32 { return order[i / 4u][i % 4u]; }
fn halt() {
  status[0] = 1u;
  for (var i = 0u; i < at(1u); i++) { rows[at(2u) * i] = 0u; }
}
@compute @workgroup_size(1)
fn main() {
  if (status[0] != 0u) { return; }
  let place = at(3u) >> 2u;
  if (at(0u) == 0u) {
    if (heap[place] != at(4u) || heap[place + 1u] != at(5u)) { status[1] = at(6u); status[2] = heap[at(7u) >> 2u]; status[3] = heap[(at(7u) >> 2u) + 1u]; halt(); }
  } else if (at(0u) == 1u) {
    var taken = heap[place];
    if (bitcast<i32>(heap[place + 1u]) < 0i) { taken = 0u; }
    if (bitcast<i32>(heap[place + 1u]) > 0i || taken >= at(5u)) { taken = at(5u) - 1u; }
    if (at(6u) == 1u && taken != at(5u) - 1u) { status[5] = 1u; }
    status[8u + at(4u)] = taken;
    for (var c = 0u; c < at(5u); c++) {
      for (var i = at(8u + 2u * c); i < at(9u + 2u * c); i++) { rows[at(2u) * i] = select(0u, rows[at(2u) * i + at(2u) - 1u], c == taken); }
    }
  } else {
    status[4] += 1u;
    if (status[5] != 0u) { halt(); }
  }
}`;
const STRIDE = 256, MOST = 64;

class Training {
  static async create(page) {
    const self = new Training();
    page.step.code = page.step.code ? parsed(page.step.code) : [];
    Object.assign(self, { page, given: [], cases: [], at: 0 });
    if (!globalThis.isSecureContext) throw new Error("Browsers give graphics cards to pages from https and from localhost alone: serve this page so.");
    if (!globalThis.navigator?.gpu) throw new Error("This browser has no WebGPU. Chrome, Edge, and newer Firefox and Safari have it.");
    // A browser whose graphics process is only starting has no adapter yet.
    let adapter = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
    for (let i = 0; i < 3 && !adapter; i++) {
      await new Promise((resolve) => setTimeout(resolve, 500));
      adapter = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
    }
    if (!adapter) throw new Error("This browser has WebGPU, and no graphics adapter for it: drivers may be missing or blocked. Chromium gives none to the worker of a page that is opened from the disk: serve it, as python -m http.server does.");
    const most = Math.min(adapter.limits.maxStorageBufferBindingSize, adapter.limits.maxBufferSize);
    if (page.bytes > most) throw new Error(`The step takes ${page.bytes} bytes, and the adapter binds ${most} at a time.`);
    const wanted = ["maxStorageBufferBindingSize", "maxBufferSize", "maxComputeWorkgroupStorageSize"];
    self.device = await adapter.requestDevice({ requiredLimits: Object.fromEntries(wanted.map((name) => [name, adapter.limits[name]])) });
    self.device.lost.then((info) => { self.lost = `The device was lost: ${info.message || info.reason}. Load the last checkpoint.`; });
    self.name = [adapter.info?.vendor, adapter.info?.architecture, adapter.info?.description].filter(Boolean).join(" ");
    await self.build();
    await self.reset();
    return self;
  }
  buffer(size, usage) { return this.device.createBuffer({ size: Math.ceil(Math.max(size, 16) / 4) * 4, usage }); }
  async build() {
    const { device, page } = this, U = GPUBufferUsage, all = U.STORAGE | U.COPY_SRC | U.COPY_DST;
    const launches = page.step.entries.filter((e) => e[0] === "launch");
    if (launches.some((e) => e[2].length + 3 > STRIDE / 4)) throw new Error("A kernel of this step reads too many arrays for a page.");
    this.heap = this.buffer(page.bytes, all);
    this.rows = this.buffer(STRIDE * launches.length + 1024, U.UNIFORM | all);
    this.status = this.buffer(256, all);
    this.start = new Uint32Array(STRIDE / 4 * launches.length);
    launches.forEach(([, kernel, addresses], i) => this.start.set([page.kernels[kernel][0], 0, ...addresses], STRIDE / 4 * i));
    launches.forEach(([, kernel], i) => { this.start[STRIDE / 4 * (i + 1) - 1] = page.kernels[kernel][0]; });
    const entry = (binding, type, more = {}) => ({ binding, visibility: GPUShaderStage.COMPUTE, buffer: { type, ...more } });
    const layout = (...entries) => device.createBindGroupLayout({ entries });
    const kernels = layout(entry(0, "uniform", { hasDynamicOffset: true, minBindingSize: 1024 }), entry(1, "storage"));
    const controls = layout(entry(0, "uniform", { hasDynamicOffset: true, minBindingSize: 256 }), ...[1, 2, 3].map((i) => entry(i, "storage")));
    const pipeline = async (bound, code, name) => device.createComputePipelineAsync({ layout: device.createPipelineLayout({ bindGroupLayouts: [bound] }), compute: { module: code, entryPoint: name } });
    const module = device.createShaderModule({ code: page.wgsl }), control = device.createShaderModule({ code: CONTROL });
    for (const { type, lineNum, message } of (await module.getCompilationInfo()).messages) {
      if (type === "error") throw new Error(`The browser does not take the kernels: line ${lineNum}: ${message}`);
    }
    this.pipelines = await Promise.all(page.kernels.map((_, i) => pipeline(kernels, module, `k${i}`)));
    this.control = await pipeline(controls, control, "main");
    const orders = page.step.entries.filter((e) => e[0] !== "launch").map((e) => e[0] === "check"
      ? [0, 0, 0, e[2], Number(BigInt.asUintN(64, BigInt(e[3])) & 0xffffffffn), Number(BigInt.asUintN(64, BigInt(e[3])) >> 32n), e[1], e[4]]
      : [1, 0, 0, e[2], e[1], e[3].length, Number(page.step.steers), 0, ...e[3].flat()]);
    orders.push([2]);
    const words = new Uint32Array(64 * orders.length);
    orders.forEach((order, i) => { words.set(order, 64 * i); words.set([launches.length, STRIDE / 4], 64 * i + 1); });
    this.orders = this.buffer(words.byteLength, U.UNIFORM | U.COPY_DST);
    device.queue.writeBuffer(this.orders, 0, words);
    const bind = (bound, ...buffers) => device.createBindGroup({ layout: bound, entries: buffers.map((resource, binding) => ({ binding, resource })) });
    this.bound = bind(kernels, { buffer: this.rows, size: 1024 }, { buffer: this.heap });
    this.controlled = bind(controls, { buffer: this.orders, size: 256 }, { buffer: this.heap }, { buffer: this.rows }, { buffer: this.status });
    this.table = this.buffer(Math.max(8 * page.step.values.length, 16) * MOST, U.COPY_SRC | U.COPY_DST);
    this.staging = this.buffer(256 + 8 * MOST, U.MAP_READ | U.COPY_DST);
    for (const [at, data] of page.filled) this.put(at, bytes(data));
    this.data = page.inputs.map(({ data }) => { const x = bytes(data), made = this.buffer(x.length + 4, U.COPY_SRC | U.COPY_DST); device.queue.writeBuffer(made, 0, pad(x)); return made; });
  }
  put(at, data) { if (data.length) this.device.queue.writeBuffer(this.heap, at, pad(data)); }
  reset() { return this.load(bytes(this.page.file)); }
  // One submit of so many steps: {losses, finite} of those that were made, and what failed, the state as it was before that step.
  async run(count) {
    const { device, page, heap } = this, { step } = page, turns = [];
    if (this.lost) throw new Error(this.lost);
    count = Math.min(count, MOST);
    const cases = step.entries.filter((e) => e[0] === "choose").map((e) => e[3].length - 1), row = Math.max(8 * step.values.length, 16);
    const table = new DataView(new ArrayBuffer(row * count));
    let given = this.given;
    for (let k = 0; k < count; k++) {
      const values = computed(step.code, given, cases);
      step.values.forEach(([, n], i) => { const kind = step.code[n][1]; if (kind === "bool") table.setUint8(row * k + 8 * i, values[n]); else write(table, kind, row * k + 8 * i, values[n]); });
      given = after(step, given, values);
    }
    device.queue.writeBuffer(this.table, 0, table.buffer);
    device.queue.writeBuffer(this.rows, 0, this.start);
    device.queue.writeBuffer(this.status, 0, new Uint32Array(64));
    const encoder = device.createCommandEncoder();
    for (let k = 0; k < count; k++) {
      if (step.values.length) encoder.copyBufferToBuffer(this.table, row * k, heap, step.values[0][0], 8 * step.values.length);
      turns.push((this.at + k) % page.batches);
      page.inputs.forEach((x, i) => encoder.copyBufferToBuffer(this.data[i], x.nbytes * turns[k], heap, x.address, x.nbytes));
      const pass = encoder.beginComputePass();
      let launch = 0, order = 0;
      const steer = () => { pass.setPipeline(this.control); pass.setBindGroup(0, this.controlled, [256 * order++]); pass.dispatchWorkgroups(1); };
      for (const [kind, kernel] of step.entries) {
        if (kind !== "launch") { steer(); continue; }
        const groups = page.kernels[kernel][0], wide = Math.min(groups, 65535);
        pass.setPipeline(this.pipelines[kernel]);
        pass.setBindGroup(0, this.bound, [STRIDE * launch++]);
        if (groups) pass.dispatchWorkgroups(wide, Math.ceil(groups / wide));
      }
      steer();
      pass.end();
      encoder.copyBufferToBuffer(heap, page.loss, this.staging, 256 + 8 * k, 4);
      encoder.copyBufferToBuffer(heap, page.finite, this.staging, 260 + 8 * k, 4);
    }
    encoder.copyBufferToBuffer(this.status, 0, this.staging, 0, 256);
    device.queue.submit([encoder.finish()]);
    await this.staging.mapAsync(GPUMapMode.READ);
    const seen = new DataView(this.staging.getMappedRange().slice(0));
    this.staging.unmap();
    const done = seen.getUint32(16, true), losses = [], finite = [];
    for (let k = 0; k < done; k++) {
      const taken = k === done - 1 ? cases.map((_, i) => seen.getUint32(32 + 4 * i, true)) : cases;
      this.given = after(step, this.given, computed(step.code, this.given, taken));
      losses.push(seen.getFloat32(256 + 8 * k, true));
      finite.push(Boolean(seen.getUint8(260 + 8 * k)));
    }
    this.at = (this.at + done) % page.batches;
    const site = seen.getUint32(4, true);
    return { losses, finite, failed: site && page.sites[site - 1].replace("{value}", String(seen.getBigInt64(8, true))) };
  }
  async state() {
    const [from, size] = this.page.state, made = this.buffer(size, GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST);
    const encoder = this.device.createCommandEncoder();
    encoder.copyBufferToBuffer(this.heap, from, made, 0, Math.ceil(size / 4) * 4);
    this.device.queue.submit([encoder.finish()]);
    await made.mapAsync(GPUMapMode.READ);
    const found = new Uint8Array(made.getMappedRange().slice(0, size));
    made.destroy();
    this.page.given.forEach(([kind, address], i) => write(new DataView(found.buffer), kind, address - from, this.given[i]));
    return found;
  }
  // The bytes of a file that step.load takes.
  async save() {
    const head = latin(this.page.head), state = await this.state(), { data, DIGESTS, SEAL } = this.page.places, [from] = this.page.state;
    const file = new Uint8Array(head.length + data), put = (text, at) => file.set(new TextEncoder().encode(text), at);
    file.set(head);
    for (const [i, [place, start, nbytes]] of this.page.table.entries()) {
      const own = state.slice(place - from, place - from + nbytes);
      file.set(own, head.length + start);
      put(await hex(own), DIGESTS + 64 * i);
    }
    put(await hex(file.slice(8, head.length)), SEAL);
    return file;
  }
  // Take over a file of this step, whole or not at all.
  async load(file) {
    const { page } = this, head = latin(page.head), { data, DIGESTS, SEAL } = page.places, decoder = new TextDecoder("latin1");
    const wrong = () => new TypeError("This file is no checkpoint of this step.");
    if (file.length !== head.length + data) throw wrong();
    const own = file.slice(0, head.length), digests = decoder.decode(own.slice(DIGESTS, DIGESTS + 64 * page.table.length)), seal = decoder.decode(own.slice(SEAL, SEAL + 64));
    own.fill(48, SEAL, SEAL + 64);
    if ((await hex(own.slice(8))) !== seal) throw wrong();
    own.fill(48, DIGESTS, DIGESTS + 64 * page.table.length);
    if (own.some((b, i) => b !== head[i])) throw wrong();
    const [from, size] = page.state, state = new Uint8Array(size);
    for (const [i, [place, start, nbytes]] of page.table.entries()) {
      const x = file.slice(head.length + start, head.length + start + nbytes);
      if ((await hex(x)) !== digests.slice(64 * i, 64 * i + 64)) throw new RangeError("This checkpoint is damaged.");
      state.set(x, place - from);
    }
    this.put(from, state);
    this.given = page.given.map(([kind, address]) => read(new DataView(state.buffer), kind, address - from));
    this.at = 0;
  }
}
const pad = (x) => { const made = new Uint8Array(Math.ceil(x.length / 4) * 4); made.set(x); return made; };
const after = (step, given, values) => { const next = [...given]; for (const [i, n] of step.following) next[i] = values[n]; return next; };
