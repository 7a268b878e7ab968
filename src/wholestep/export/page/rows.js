// Rows of the data on a card: in the order that step.run draws, by Philox 4x32-10, and brought to a batch's place there.
const upper = (a, b) => {
  const [a1, a0, b1, b0] = [a >>> 16, a & 65535, b >>> 16, b & 65535], one = a1 * b0 + Math.floor((a0 * b0) / 65536), two = a0 * b1 + (one % 65536);
  return (a1 * b1 + Math.floor(one / 65536) + Math.floor(two / 65536)) >>> 0;
};
function philox([c0, c1, c2, c3], [k0, k1]) {
  for (let i = 0; i < 10; i++) {
    [c0, c1, c2, c3] = [upper(0xcd9e8d57, c2) ^ c1 ^ k0, Math.imul(0xcd9e8d57, c2), upper(0xd2511f53, c0) ^ c3 ^ k1, Math.imul(0xd2511f53, c0)].map((x) => x >>> 0);
    [k0, k1] = [(k0 + 0x9e3779b9) >>> 0, (k1 + 0xbb67ae85) >>> 0];
  }
  return [c0, c1, c2, c3];
}
// The order of the rows of the epoch that begins with step number `first`.
function rowOrder(count, [split, fold, bits], key, first) {
  const made = (key, data, stream) => philox([0, 0, data, stream], key).slice(0, 2), [low, high] = halves32(first);
  const folded = made(made(key, 0, split), low, fold), own = high ? made(folded, high, fold) : folded, words = [];
  for (let i = 0; i < count; i += 2) { const [a, b, c, d] = philox([i / 2, 0, 0, bits], own); words.push([b, a], [d, c]); }
  return Array.from({ length: count }, (_, i) => i).sort((i, j) => words[i][0] - words[j][0] || words[i][1] - words[j][1]);
}
const GATHER = `
@group(0) @binding(0) var<uniform> take: vec4<u32>;
@group(0) @binding(1) var<storage, read_write> heap: array<u32>;
@group(0) @binding(2) var<storage, read_write> rows: array<u32>;
@group(0) @binding(3) var<storage, read_write> picked: array<u32>;
fn source(i: u32) -> u32 { return picked[i / take.y] * take.y + i % take.y; }
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) at: vec3<u32>, @builtin(num_workgroups) count: vec3<u32>) {
  let i = 4u * (at.x + 64u * count.x * at.y);
  if (i >= take.z) { return; }
  var x = 0u;
  if (take.y % 4u == 0u) { x = rows[source(i) >> 2u]; } else {
    for (var b = 0u; b < min(4u, take.z - i); b++) { let place = source(i + b); x |= ((rows[place >> 2u] >> (8u * (place & 3u))) & 255u) << (8u * b); }
  }
  heap[(take.x + i) >> 2u] = x;
}`;

class Rows {
  // `given` has the number of rows, those of a batch and how they are drawn; `data` the bytes of each input's rows.
  constructor(card, given, data) {
    Object.assign(this, { card, given, inputs: card.page.step.inputs, batches: Math.floor(given.count / given.size), held: [] });
    const U = GPUBufferUsage, all = U.STORAGE | U.COPY_SRC | U.COPY_DST;
    const room = (nbytes, usage = all) => { this.held.push(card.buffer(nbytes, usage)); return this.held.at(-1); };
    const filled = (x, usage) => { const made = room(x.byteLength, usage); card.device.queue.writeBuffer(made, 0, pad(x)); return made; };
    this.picked = room(4 * given.size);
    this.list = room(4 * given.size * MOST);
    this.inputs.forEach(({ path }, i) => card.fits(data[i].length, `the rows of ${path}`));
    this.bound = this.inputs.map((x, i) => {
      const words = Uint32Array.from({ ...[x.address, x.nbytes / given.size, x.nbytes], length: card.orderWords });
      return card.bind(card.controls, filled(own(words), U.UNIFORM | U.COPY_DST), card.heap, filled(data[i]), this.picked);
    });
    this.begin();
  }
  destroy() { for (const buffer of this.held) buffer.destroy(); }
  // Begin an epoch with the next step.
  begin() { Object.assign(this, { order: null, at: 0, first: 0n }); }
  // Go on in the middle of the epoch that step number `first` began.
  resume(at, key, first) { if (at) Object.assign(this, { order: this.epoch(key, first), at, first }); }
  epoch(key, first) { const { streams, count } = this.given; return streams ? rowOrder(count, streams, key, first) : Array.from({ length: count }, (_, i) => i); }
  // Draw so many batches; the first is step number `first`, with the key of the state.
  draw(count, key, first) {
    const { size } = this.given, list = new Uint32Array(size * count);
    let { order, at, first: begun } = this;
    this.drawn = [];
    for (let k = 0; k < count; k++) {
      if (!order || at === this.batches) { begun = first + BigInt(k); [order, at] = [this.epoch(key, begun), 0]; }
      list.set(order.slice(size * at, size * ++at), size * k);
      this.drawn.push({ order, at, first: begun });
    }
    this.card.device.queue.writeBuffer(this.list, 0, list);
  }
  // So many of the batches that were drawn were taken.
  taken(done) { Object.assign(this, this.drawn[done - 1]); }
  // Record what brings batch k to its place.
  pick(encoder, k) {
    encoder.copyBufferToBuffer(this.list, 4 * this.given.size * k, this.picked, 0, 4 * this.given.size);
    return (pass) => this.inputs.forEach(({ nbytes }, i) => {
      const groups = Math.ceil(nbytes / 256), wide = Math.min(groups, 65535);
      pass.setPipeline(this.card.gather);
      pass.setBindGroup(0, this.bound[i], [0]);
      if (groups) pass.dispatchWorkgroups(wide, Math.ceil(groups / wide));
    });
  }
}
