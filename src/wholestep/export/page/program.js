// A list of dispatches on a card: the words of its launches, checks and branches, and what the host computes for it.
// The status of a program begins with so many words, and goes on with the case that each branch took.
const FIELDS = 8;
// Record a launch of so many workgroups, in two dimensions where they are too many for one.
function launch(pass, pipeline, group, offset, groups) {
  if (!groups) return;
  const wide = Math.min(groups, 65535);
  pass.setPipeline(pipeline);
  pass.setBindGroup(0, group, [offset]);
  pass.dispatchWorkgroups(wide, Math.ceil(groups / wide));
}

class Program {
  // `card` has the device, the heap, the pipelines of kernels and control, and their layouts.
  constructor(card, spec, most) {
    const { device, page: { kernels, orderWords } } = card;
    const U = GPUBufferUsage, all = U.STORAGE | U.COPY_SRC | U.COPY_DST;
    Object.assign(this, { card, spec, code: spec.code ? parsed(spec.code) : [] });
    const launches = spec.entries.filter(([kind]) => kind === "launch");
    const orders = spec.entries.filter(([kind]) => kind !== "launch").map(([, order]) => order).concat([[2]]);
    const words = 64 * Math.ceil(Math.max(1, ...launches.map(([, , addresses]) => addresses.length + 3)) / 64);
    this.start = new Uint32Array(words * launches.length);
    launches.forEach(([, kernel, addresses], i) => {
      this.start.set([kernels[kernel], 0, ...addresses], words * i);
      this.start[words * (i + 1) - 1] = kernels[kernel];
    });
    this.stride = 4 * words;
    this.rows = card.buffer(this.stride * launches.length + 1024, U.UNIFORM | all);
    this.cases = spec.entries.filter(([kind]) => kind === "choose").map(([, order]) => order[5] - 1);
    this.statusBytes = 4 * (FIELDS + this.cases.length);
    this.status = card.buffer(this.statusBytes, all);
    const list = new Uint32Array(orderWords * orders.length);
    orders.forEach((order, i) => {
      list.set(order, orderWords * i);
      list.set([launches.length, words], orderWords * i + 1);
    });
    this.orders = card.buffer(list.byteLength, U.UNIFORM | U.COPY_DST);
    device.queue.writeBuffer(this.orders, 0, list);
    this.bound = card.bind(card.kernels, this.rows, card.heap);
    this.controlled = card.bind(card.controls, this.orders, card.heap, this.rows, this.status);
    // The values of the host lie in the heap from the first to the last.
    this.first = spec.values[0]?.[0];
    this.row = spec.values.length && spec.values.at(-1)[0] + 8 - this.first;
    this.table = card.buffer(this.row * most, U.COPY_SRC | U.COPY_DST);
  }
  // Make ready for so many calls that begin with the scalars `given`, and in which branches take their last cases.
  begin(count, given) {
    const { spec, code, row, card: { device: { queue } } } = this, table = new DataView(new ArrayBuffer(row * count));
    this.given = [given];
    for (let k = 0; k < count; k++) {
      const values = computed(code, this.given[k], this.cases);
      for (const [address, n] of spec.values) write(table, code[n][1], row * k + address - this.first, values[n]);
      this.given.push(after(spec, this.given[k], values));
    }
    queue.writeBuffer(this.table, 0, table.buffer);
    queue.writeBuffer(this.rows, 0, this.start);
    queue.writeBuffer(this.status, 0, new Uint8Array(this.statusBytes));
  }
  // Record call k, in so many submits; `before` records what comes first. Returns the encoder to go on with.
  record(encoder, k, before, parts = 1) {
    const { spec, card, card: { page } } = this, every = Math.ceil(spec.entries.length / parts);
    if (this.row) encoder.copyBufferToBuffer(this.table, this.row * k, card.heap, this.first, this.row);
    let pass = encoder.beginComputePass(), launches = 0, orders = 0;
    before?.(pass);
    const steer = () => launch(pass, card.control, this.controlled, 4 * page.orderWords * orders++, 1);
    spec.entries.forEach(([kind, kernel], i) => {
      if (i && i % every === 0) {
        pass.end();
        card.device.queue.submit([encoder.finish()]);
        encoder = card.device.createCommandEncoder();
        pass = encoder.beginComputePass();
      }
      if (kind !== "launch") steer();
      else launch(pass, card.pipelines[kernel], this.bound, this.stride * launches++, page.kernels[kernel]);
    });
    steer();
    pass.end();
    return encoder;
  }
  // What came of it: calls made, the scalars after them, and what failed. Only the last may have taken other cases.
  outcome(seen) {
    const { spec, code, given } = this, [done, site] = [16, 4].map((at) => seen.getUint32(at, true));
    const taken = this.cases.map((_, i) => seen.getUint32(4 * (FIELDS + i), true)), last = given[done - 1];
    return {
      done,
      given: done ? after(spec, last, computed(code, last, taken)) : given[0],
      failed: site ? spec.sites[site - 1].replace("{value}", String(seen.getBigInt64(8, true))) : null,
    };
  }
}
