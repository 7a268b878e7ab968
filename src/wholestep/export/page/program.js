// A list of dispatches on a card: the words of its launches, its checks and branches, and what the host computes for it.
const FIELDS = 8;
// What looks at checks and branches: `order` says what, and a row of `rows` whose first word is 0 is a launch of nothing.
const CONTROL = (words) => `
@group(0) @binding(0) var<uniform> order: array<vec4<u32>, ${words / 4}>;
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
const halves32 = (n) => { const bits = BigInt.asUintN(64, BigInt(n)); return [Number(bits & 0xffffffffn), Number(bits >> 32n)]; };
// The orders of a program's checks and branches, and of its end.
function orders({ entries, steers }) {
  const made = entries.filter((e) => e[0] !== "launch").map(([kind, number, address, rest, value]) => kind === "check"
    ? [0, 0, 0, address, ...halves32(rest), number, value]
    : [1, 0, 0, address, number, rest.length, Number(steers), 0, ...rest.flat()]);
  return [...made, [2]];
}
const orderWords = (spec) => 64 * Math.ceil(Math.max(...orders(spec).map((x) => x.length)) / 64);

class Program {
  // `card` has the device, the heap, the pipelines of kernels and control, and their layouts.
  constructor(card, spec, most) {
    const { device, page } = card, U = GPUBufferUsage, all = U.STORAGE | U.COPY_SRC | U.COPY_DST;
    Object.assign(this, { card, spec, most, code: spec.code ? parsed(spec.code) : [] });
    const launches = spec.entries.filter((e) => e[0] === "launch"), made = orders(spec);
    const words = 64 * Math.ceil(Math.max(1, ...launches.map((e) => e[2].length + 3)) / 64);
    this.start = new Uint32Array(words * launches.length);
    launches.forEach(([, kernel, addresses], i) => {
      this.start.set([page.kernels[kernel], 0, ...addresses], words * i);
      this.start[words * (i + 1) - 1] = page.kernels[kernel];
    });
    this.stride = 4 * words;
    this.rows = card.buffer(this.stride * launches.length + 1024, U.UNIFORM | all);
    this.cases = spec.entries.filter((e) => e[0] === "choose").map((e) => e[3].length - 1);
    this.statusBytes = 4 * (FIELDS + this.cases.length);
    this.status = card.buffer(this.statusBytes, all);
    const list = new Uint32Array(card.orderWords * made.length);
    made.forEach((order, i) => { list.set(order, card.orderWords * i); list.set([launches.length, words], card.orderWords * i + 1); });
    this.orders = card.buffer(list.byteLength, U.UNIFORM | U.COPY_DST);
    device.queue.writeBuffer(this.orders, 0, list);
    this.bound = card.bind(card.kernels, this.rows, card.heap);
    this.controlled = card.bind(card.controls, this.orders, card.heap, this.rows, this.status);
    // The values of the host lie in the heap from the first to the last.
    const { values } = spec;
    this.row = values.length && values.at(-1)[0] + 8 - values[0][0];
    this.table = card.buffer(this.row * most, U.COPY_SRC | U.COPY_DST);
  }
  // Make ready for so many calls that begin with the scalars `given`.
  begin(count, given) {
    const { row, spec, code, cases, card: { device: { queue } } } = this, table = new DataView(new ArrayBuffer(row * count));
    for (let k = 0; k < count; k++) {
      const values = computed(code, given, cases);
      for (const [address, n] of spec.values) {
        const kind = code[n][1], at = row * k + address - spec.values[0][0];
        if (kind === "bool") table.setUint8(at, values[n]);
        else write(table, kind, at, values[n]);
      }
      given = after(spec, given, values);
    }
    queue.writeBuffer(this.table, 0, table.buffer);
    queue.writeBuffer(this.rows, 0, this.start);
    queue.writeBuffer(this.status, 0, new Uint8Array(this.statusBytes));
  }
  // Record call k, in so many submits; `before`, if there is one, records what comes first. Returns the encoder to go on with.
  record(encoder, k, before, parts = 1) {
    const { spec, card } = this, every = Math.ceil(spec.entries.length / parts);
    if (this.row) encoder.copyBufferToBuffer(this.table, this.row * k, card.heap, spec.values[0][0], this.row);
    let pass = encoder.beginComputePass(), launch = 0, order = 0;
    before?.(pass);
    const steer = () => { pass.setPipeline(card.control); pass.setBindGroup(0, this.controlled, [4 * card.orderWords * order++]); pass.dispatchWorkgroups(1); };
    spec.entries.forEach(([kind, kernel], i) => {
      if (i && i % every === 0) {
        pass.end();
        card.device.queue.submit([encoder.finish()]);
        encoder = card.device.createCommandEncoder();
        pass = encoder.beginComputePass();
      }
      if (kind !== "launch") { steer(); return; }
      const groups = card.page.kernels[kernel], wide = Math.min(groups, 65535);
      pass.setPipeline(card.pipelines[kernel]);
      pass.setBindGroup(0, this.bound, [this.stride * launch++]);
      if (groups) pass.dispatchWorkgroups(wide, Math.ceil(groups / wide));
    });
    steer();
    pass.end();
    return encoder;
  }
  // What came of it: calls made, the scalars after them, and what failed.
  outcome(seen, given) {
    const done = seen.getUint32(16, true), site = seen.getUint32(4, true);
    for (let k = 0; k < done; k++) {
      const taken = k === done - 1 ? this.cases.map((_, i) => seen.getUint32(4 * (FIELDS + i), true)) : this.cases;
      given = after(this.spec, given, computed(this.code, given, taken));
    }
    return { done, given, failed: site ? this.spec.sites[site - 1].replace("{value}", String(seen.getBigInt64(8, true))) : null };
  }
}
