// Rows of the data on a card: in the order that step.run draws, by Philox 4x32-10, and brought to a batch's place.
const upper = (a, b) => {
  const [a1, a0, b1, b0] = [a >>> 16, a & 65535, b >>> 16, b & 65535];
  const one = a1 * b0 + Math.floor((a0 * b0) / 65536), two = a0 * b1 + (one % 65536);
  return (a1 * b1 + Math.floor(one / 65536) + Math.floor(two / 65536)) >>> 0;
};
function philox([c0, c1, c2, c3], [k0, k1]) {
  for (let i = 0; i < 10; i++) {
    const [x, y] = [upper(0xcd9e8d57, c2) ^ c1 ^ k0, upper(0xd2511f53, c0) ^ c3 ^ k1];
    [c0, c1, c2, c3] = [x, Math.imul(0xcd9e8d57, c2), y, Math.imul(0xd2511f53, c0)].map((word) => word >>> 0);
    [k0, k1] = [(k0 + 0x9e3779b9) >>> 0, (k1 + 0xbb67ae85) >>> 0];
  }
  return [c0, c1, c2, c3];
}
// The order of the rows of the epoch that begins with step number `first`.
function rowOrder(count, [split, fold, bits], key, first) {
  const made = (own, data, stream) => philox([0, 0, data, stream], own).slice(0, 2);
  const [low, high] = [0n, 32n].map((by) => Number(BigInt.asUintN(32, first >> by)));
  const folded = made(made(key, 0, split), low, fold), own = high ? made(folded, high, fold) : folded, words = [];
  for (let i = 0; i < count; i += 2) {
    const [a, b, c, d] = philox([i / 2, 0, 0, bits], own);
    words.push([b, a], [d, c]);
  }
  return [...Array(count).keys()].sort((i, j) => words[i][0] - words[j][0] || words[i][1] - words[j][1]);
}

class Rows {
  // `given` has the number of rows, those of a batch and how they are drawn; `data` the bytes of each input's rows.
  constructor(card, given, data) {
    const { step: { inputs }, orderWords } = card.page, { size, count } = given, U = GPUBufferUsage;
    Object.assign(this, { card, given, inputs, batches: Math.floor(count / size), held: [] });
    const room = (nbytes, usage = U.STORAGE | U.COPY_SRC) => {
      const made = card.buffer(nbytes, usage | U.COPY_DST);
      this.held.push(made);
      return made;
    };
    const filled = (x, usage) => {
      const made = room(x.byteLength, usage);
      card.device.queue.writeBuffer(made, 0, pad(x));
      return made;
    };
    this.picked = room(4 * size);
    this.list = room(4 * size * MOST);
    inputs.forEach(({ path }, i) => card.fits(data[i].length, `the rows of ${path}`));
    this.bound = inputs.map((x, i) => {
      const order = Uint32Array.from({ ...[x.address, x.nbytes / size, x.nbytes], length: orderWords });
      return card.bind(card.controls, filled(own(order), U.UNIFORM), card.heap, filled(data[i]), this.picked);
    });
    this.begin();
  }
  destroy() { for (const buffer of this.held) buffer.destroy(); }
  // Begin an epoch with the next step.
  begin() { Object.assign(this, { order: null, at: 0, first: 0n }); }
  // Go on in the middle of the epoch that step number `first` began.
  resume(at, key, first) { if (at) Object.assign(this, { order: this.epoch(key, first), at, first }); }
  epoch(key, first) {
    const { streams, count } = this.given;
    return streams ? rowOrder(count, streams, key, first) : [...Array(count).keys()];
  }
  // Draw so many batches; the first is step number `first`, with the key of the state.
  draw(count, key, first) {
    const { size } = this.given, list = new Uint32Array(size * count);
    let { order, at, first: begun } = this;
    this.drawn = [];
    for (let k = 0; k < count; k++) {
      if (!order || at === this.batches) {
        begun = first + BigInt(k);
        [order, at] = [this.epoch(key, begun), 0];
      }
      list.set(order.slice(size * at, size * ++at), size * k);
      this.drawn.push({ order, at, first: begun });
    }
    this.card.device.queue.writeBuffer(this.list, 0, list);
  }
  // So many of the batches that were drawn were taken.
  taken(done) { Object.assign(this, this.drawn[done - 1]); }
  // Record what brings batch k to its place.
  pick(encoder, k) {
    const { card, bound, inputs, given: { size } } = this;
    encoder.copyBufferToBuffer(this.list, 4 * size * k, this.picked, 0, 4 * size);
    return (pass) => inputs.forEach(({ nbytes }, i) => launch(pass, card.gather, bound[i], 0, Math.ceil(nbytes / 256)));
  }
}
