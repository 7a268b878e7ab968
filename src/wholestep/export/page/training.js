// A step and functions on its state on a card: one heap, several steps a submit, and what is read back.
const bytes = (text) => latin(atob(text));
// Steps of a submit at most, and the milliseconds that one should take: drivers end what takes seconds.
const MOST = 256, WANTED = 200;
const LIMITS = ["maxStorageBufferBindingSize", "maxBufferSize", "maxComputeWorkgroupStorageSize"];
const UNTRUSTED = "Browsers give graphics cards to pages from https and from localhost alone: serve this page so.";
const NO_WEBGPU = "This browser has no WebGPU. Chrome, Edge, and newer Firefox and Safari have it.";
const NO_ADAPTER = "This browser has WebGPU, and no graphics adapter for it: drivers may be missing or blocked. "
  + "Chromium gives none to the worker of a page opened from the disk: serve it, as python -m http.server does.";
const AGAIN = "Load this page anew; it goes on from the state that it has kept, or from a checkpoint.";

const later = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const padded = (size) => Math.ceil(size / 4) * 4;
function pad(x) {
  const made = new Uint8Array(padded(x.length));
  made.set(x);
  return made;
}
// Words from their differences to the ones two before.
function summed(x) {
  const words = new Uint32Array(x.buffer);
  for (let i = 2; i < words.length; i++) words[i] += words[i - 2];
  return x;
}
const own = (x) => new Uint8Array(x.buffer, x.byteOffset, x.byteLength);
// Refuse names that are none of those that there are.
function known(what, names, given) {
  const other = given.find((name) => !names.includes(name));
  if (other !== undefined) throw new TypeError(`There is no ${what} ${other}; there is ${names.join(", ") || "none"}.`);
}
// An adapter; a browser whose graphics process is only starting has none yet.
async function graphicsAdapter(tries = 4) {
  const found = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
  if (found || tries === 1) return found;
  await later(500);
  return graphicsAdapter(tries - 1);
}

class Training {
  static async create(page) {
    const self = new this(), file = new StateFile(page.head, page.own);
    Object.assign(self, { page, file, given: [], pace: 1, parts: 8, turn: Promise.resolve() });
    if (globalThis.isSecureContext === false) throw new Error(UNTRUSTED);
    if (!globalThis.navigator?.gpu) throw new Error(NO_WEBGPU);
    const adapter = await graphicsAdapter();
    if (!adapter) throw new Error(NO_ADAPTER);
    const { limits, info } = adapter;
    self.most = Math.min(limits.maxStorageBufferBindingSize, limits.maxBufferSize);
    self.fits(page.bytes, `the step, whose largest array is ${page.largest}`);
    const requiredLimits = Object.fromEntries(LIMITS.map((name) => [name, limits[name]]));
    self.device = await adapter.requestDevice({ requiredLimits });
    self.device.lost.then(({ message, reason }) => self.fail(`The device was lost: ${message || reason}`));
    self.device.onuncapturederror = ({ error }) => self.fail(`The device failed: ${error.message}`);
    self.name = [info?.vendor, info?.architecture, info?.description].filter(Boolean).join(" ");
    await self.build();
    await self.reset();
    return self;
  }
  // Nothing is computed on a device that has failed.
  fail(reason) { this.failed ??= `${reason}. ${AGAIN}`; }
  fits(size, what) {
    const words = `The adapter binds ${this.most} bytes at a time, not the ${size} of ${what}.`;
    if (size > this.most) throw new RangeError(words);
  }
  buffer(size, usage) { return this.device.createBuffer({ size: padded(Math.max(size, 16)), usage }); }
  async build() {
    const { device, page } = this, U = GPUBufferUsage, { COMPUTE } = GPUShaderStage;
    this.heap = this.buffer(page.bytes, U.STORAGE | U.COPY_SRC | U.COPY_DST);
    const layout = (count) => device.createBindGroupLayout({
      entries: Array.from({ length: count }, (_, binding) => ({
        binding,
        visibility: COMPUTE,
        buffer: binding ? { type: "storage" } : { type: "uniform", hasDynamicOffset: true },
      })),
    });
    [this.kernels, this.controls] = [layout(2), layout(4)];
    const module = device.createShaderModule({ code: page.wgsl });
    const broken = (await module.getCompilationInfo()).messages.find(({ type }) => type === "error");
    if (broken) throw new Error(`The browser does not take the kernels: line ${broken.lineNum}: ${broken.message}`);
    const pipeline = (bound, entryPoint) => device.createComputePipelineAsync({
      layout: device.createPipelineLayout({ bindGroupLayouts: [bound] }),
      compute: { module, entryPoint },
    });
    const control = ["control", "gather"].map((name) => pipeline(this.controls, name));
    this.pipelines = await Promise.all(page.kernels.map((_, i) => pipeline(this.kernels, `k${i}`)));
    [this.control, this.gather] = await Promise.all(control);
    this.program = new Program(this, page.step, MOST);
    const functions = Object.entries(page.functions);
    this.functions = Object.fromEntries(functions.map(([name, spec]) => [name, new Program(this, spec, 1)]));
    for (const [at, data] of page.filled) this.put(at, summed(bytes(data)));
    if (page.rows.data) this.rows = new Rows(this, page.rows, page.rows.data.map(bytes));
  }
  // A group of a layout: what a launch reads at an offset of its own, and whole buffers.
  bind(layout, first, ...others) {
    const size = layout === this.kernels ? 1024 : 4 * this.page.orderWords;
    const resources = [{ buffer: first, size }, ...others.map((buffer) => ({ buffer }))];
    const entries = resources.map((resource, binding) => ({ binding, resource }));
    return this.device.createBindGroup({ layout, entries });
  }
  put(at, data) { if (data.length) this.device.queue.writeBuffer(this.heap, at, pad(data)); }
  // One after another, however they are called.
  queued(work) {
    const result = this.turn.then(async () => {
      if (this.failed) throw new Error(this.failed);
      try {
        return await work();
      } catch (error) {
        // What waits for a device that has failed may end before the failure itself is told.
        await Promise.race([this.device.lost, later(50)]);
        throw this.failed ? new Error(this.failed) : error;
      }
    });
    this.turn = result.catch(() => {});
    return result;
  }
  // Submit what is recorded, and read these bytes, each [buffer, offset, size].
  async read(encoder, pieces) {
    const { MAP_READ, COPY_DST } = GPUBufferUsage;
    const copies = pieces.map(([buffer, offset, size]) => {
      const copy = this.buffer(size, MAP_READ | COPY_DST);
      encoder.copyBufferToBuffer(buffer, offset, copy, 0, padded(size));
      return copy;
    });
    this.device.queue.submit([encoder.finish()]);
    return Promise.all(copies.map(async (copy, i) => {
      await copy.mapAsync(GPUMapMode.READ);
      const found = copy.getMappedRange().slice(0, pieces[i][2]);
      copy.destroy();
      return found;
    }));
  }
  places(arrays) { return arrays.map((x) => [this.heap, x.address, x.nbytes]); }
  named(arrays, found) { return Object.fromEntries(arrays.map((x, i) => [x.path, new globalThis[x.kind](found[i])])); }
  // So many steps over the data: {losses, finite, captures} of those that were made, the captures of the last one, and
  // what failed, the state as it was before that step. Steps a submit, and submits a step, follow the time they take.
  run(count = 1) {
    if (!this.rows) throw new TypeError("There is no data to run over: give it first.");
    return this.queued(async () => {
      let found = { losses: [], finite: [], captures: {}, failed: null };
      while (found.losses.length < count && !found.failed) {
        const before = performance.now();
        const one = await this.steps(Math.min(count - found.losses.length, this.pace), this.rows);
        this.adapt(performance.now() - before, one.losses.length);
        found = { ...one, losses: found.losses.concat(one.losses), finite: found.finite.concat(one.finite) };
      }
      return found;
    });
  }
  adapt(all, done) {
    const ms = all / Math.max(done, 1), most = this.page.step.entries.length;
    this.pace = Math.max(1, Math.min(MOST, 2 * Math.max(done, this.pace >> 1), Math.floor(WANTED / ms)));
    if (ms > 2 * WANTED) this.parts = Math.min(2 * this.parts, most);
    else if (ms < WANTED / 2) this.parts = 1;
  }
  // The hyper-parameters by their names.
  hyper() {
    const all = this.page.given.map(([path], i) => [path, Number(this.given[i])]);
    const own = all.filter(([path]) => path.startsWith("hyper."));
    return Object.fromEntries(own.map(([path, x]) => [path.slice(6), x]));
  }
  // Change hyper-parameters by their names.
  async set(values) {
    known("hyper-parameter", Object.keys(this.hyper()), Object.keys(values));
    if (Object.values(values).some((x) => typeof x !== "number")) throw new TypeError("A hyper-parameter is a number.");
    return this.queued(() => {
      for (const [name, x] of Object.entries(values)) {
        const i = this.page.given.findIndex(([path]) => path === `hyper.${name}`);
        const [, kind, address] = this.page.given[i], view = new DataView(new ArrayBuffer(8));
        this.given[i] = kind === "i64" ? BigInt(x) : x;
        write(view, kind, 0, this.given[i]);
        this.put(address, own(view));
      }
    });
  }
  async steps(count, rows) {
    const { device, page, heap, program: step } = this, { outputs } = page.step;
    rows?.draw(count, this.key, this.made);
    step.begin(count, this.given);
    const losses = this.buffer(8 * count, GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST);
    let encoder = device.createCommandEncoder();
    for (let k = 0; k < count; k++) {
      encoder = step.record(encoder, k, rows?.pick(encoder, k), this.parts);
      encoder.copyBufferToBuffer(heap, page.loss, losses, 8 * k, 4);
      encoder.copyBufferToBuffer(heap, page.finite, losses, 8 * k + 4, 4);
    }
    const pieces = [[step.status, 0, step.statusBytes], [losses, 0, 8 * count], ...this.places(outputs)];
    const [status, kept, ...extras] = await this.read(encoder, pieces);
    losses.destroy();
    const { done, given, failed } = step.outcome(new DataView(status)), seen = new DataView(kept);
    if (!done && !failed) throw new Error("The device made no step.");
    const each = (pick) => Array.from({ length: done }, (_, k) => pick(8 * k));
    this.given = given;
    this.made += BigInt(done);
    rows?.taken(done);
    return {
      losses: each((at) => seen.getFloat32(at, true)),
      finite: each((at) => Boolean(seen.getUint8(at + 4))),
      captures: failed ? {} : this.named(outputs, extras),
      failed,
    };
  }
  // Where training is in its data, and going on from there with a file of then.
  position() { return this.rows && { at: this.rows.at, first: String(this.rows.first) }; }
  async resume(file, { at, first }) {
    await this.load(file);
    this.rows.resume(at, this.key, BigInt(first));
  }
  // The bytes of a file that step.load takes.
  save() {
    const [from, size] = this.page.state;
    return this.queued(async () => {
      const [found] = await this.read(this.device.createCommandEncoder(), [[this.heap, from, size]]);
      const view = new DataView(found);
      this.page.given.forEach(([, kind, address], i) => write(view, kind, address - from, this.given[i]));
      return this.file.written((place, nbytes) => new Uint8Array(found, place - from, nbytes));
    });
  }
  // Take over a file of this step, whole or not at all.
  load(file) { return this.queued(async () => this.restore(await this.file.read(file))); }
  // The state as it was exported.
  reset() {
    const start = bytes(this.page.start);
    return this.queued(() => {
      this.restore(this.file.table.map(([place, at, nbytes]) => [place, start.subarray(at, at + nbytes)]));
    });
  }
  restore(arrays) {
    const [from, size] = this.page.state, { key, step } = this.page.counters, state = new Uint8Array(size);
    for (const [place, own] of arrays) state.set(own, place - from);
    this.put(from, state);
    const view = new DataView(state.buffer);
    this.key = [0, 4].map((at) => view.getUint32(key - from + at, true));
    this.made = view.getBigInt64(step - from, true);
    this.given = this.page.given.map(([, kind, address]) => read(view, kind, address - from));
    this.rows?.begin();
  }
}
