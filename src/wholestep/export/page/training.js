// A step and functions on its state on a card: one heap, several steps a submit, and what is read back.
const bytes = (text) => latin(atob(text));
const pad = (x) => { const made = new Uint8Array(Math.ceil(x.length / 4) * 4); made.set(x); return made; };
// Steps of a submit at most, and the milliseconds that one should take: drivers end what takes seconds.
const MOST = 256, WANTED = 200;

// Words from their differences to the ones two before.
const summed = (x) => { const words = new Uint32Array(x.buffer); for (let i = 2; i < words.length; i++) words[i] += words[i - 2]; return x; };
const own = (x) => new Uint8Array(x.buffer, x.byteOffset, x.byteLength);
class Training {
  static async create(page) {
    const self = new this();
    Object.assign(self, { page, given: [], pace: 1, parts: 8, turn: Promise.resolve(), file: new StateFile(page.head, page.own) });
    if (globalThis.isSecureContext === false) throw new Error("Browsers give graphics cards to pages from https and from localhost alone: serve this page so.");
    if (!globalThis.navigator?.gpu) throw new Error("This browser has no WebGPU. Chrome, Edge, and newer Firefox and Safari have it.");
    // A browser whose graphics process is only starting has no adapter yet.
    let adapter = null;
    for (let i = 0; i < 4 && !adapter; i++) {
      if (i) await new Promise((resolve) => setTimeout(resolve, 500));
      adapter = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
    }
    if (!adapter) throw new Error("This browser has WebGPU, and no graphics adapter for it: drivers may be missing or blocked. Chromium gives none to the worker of a page that is opened from the disk: serve it, as python -m http.server does.");
    const limits = ["maxStorageBufferBindingSize", "maxBufferSize", "maxComputeWorkgroupStorageSize"].map((name) => [name, adapter.limits[name]]);
    self.most = Math.min(limits[0][1], limits[1][1]);
    self.fits(page.bytes, `the step, whose largest array is ${page.largest}`);
    self.device = await adapter.requestDevice({ requiredLimits: Object.fromEntries(limits) });
    self.device.lost.then((info) => { self.lost = `The device was lost: ${info.message || info.reason}. Load the last checkpoint.`; });
    self.name = [adapter.info?.vendor, adapter.info?.architecture, adapter.info?.description].filter(Boolean).join(" ");
    await self.build();
    await self.reset();
    return self;
  }
  fits(size, what) { if (size > this.most) throw new RangeError(`The adapter binds ${this.most} bytes at a time, not the ${size} of ${what}.`); }
  buffer(size, usage) { return this.device.createBuffer({ size: Math.ceil(Math.max(size, 16) / 4) * 4, usage }); }
  async build() {
    const { device, page } = this, U = GPUBufferUsage, programs = Object.entries({ step: page.step, ...page.functions });
    this.heap = this.buffer(page.bytes, U.STORAGE | U.COPY_SRC | U.COPY_DST);
    this.orderWords = Math.max(...programs.map(([, spec]) => orderWords(spec)));
    const entry = (binding, type) => ({ binding, visibility: GPUShaderStage.COMPUTE, buffer: { type, hasDynamicOffset: !binding } });
    const layout = (...entries) => device.createBindGroupLayout({ entries });
    const pipeline = async (bound, code, name) => device.createComputePipelineAsync({ layout: device.createPipelineLayout({ bindGroupLayouts: [bound] }), compute: { module: code, entryPoint: name } });
    this.kernels = layout(entry(0, "uniform"), entry(1, "storage"));
    this.controls = layout(entry(0, "uniform"), ...[1, 2, 3].map((i) => entry(i, "storage")));
    const module = device.createShaderModule({ code: page.wgsl }), control = device.createShaderModule({ code: CONTROL(this.orderWords) });
    for (const { type, lineNum, message } of (await module.getCompilationInfo()).messages) {
      if (type === "error") throw new Error(`The browser does not take the kernels: line ${lineNum}: ${message}`);
    }
    const gather = device.createShaderModule({ code: GATHER });
    this.pipelines = await Promise.all(page.kernels.map((_, i) => pipeline(this.kernels, module, `k${i}`)));
    [this.control, this.gather] = await Promise.all([control, gather].map((code) => pipeline(this.controls, code, "main")));
    this.programs = Object.fromEntries(programs.map(([name, spec]) => [name, new Program(this, spec, name === "step" ? MOST : 1)]));
    for (const [at, data] of page.filled) this.put(at, summed(bytes(data)));
    if (page.rows.data) this.rows = new Rows(this, page.rows, page.rows.data.map(bytes));
  }
  // A group of a layout: what a launch reads at an offset of its own, and whole buffers.
  bind(layout, first, ...others) {
    const sized = { buffer: first, size: layout === this.kernels ? 1024 : 4 * this.orderWords };
    return this.device.createBindGroup({ layout, entries: [sized, ...others.map((buffer) => ({ buffer }))].map((resource, binding) => ({ binding, resource })) });
  }
  put(at, data) { if (data.length) this.device.queue.writeBuffer(this.heap, at, pad(data)); }
  // One after another, however they are called.
  queued(work) {
    const result = this.turn.then(() => { if (this.lost) throw new Error(this.lost); return work(); }).catch(async (error) => {
      // What waits for a device that is lost may fail before the loss itself is told.
      await Promise.race([this.device.lost, new Promise((resolve) => setTimeout(resolve, 50))]);
      throw this.lost ? new Error(this.lost) : error;
    });
    this.turn = result.catch(() => {});
    return result;
  }
  // Submit what is recorded, and read these bytes, each [buffer, offset, size], one behind the other.
  async read(encoder, pieces) {
    const sizes = pieces.map(([, , size]) => Math.ceil(size / 4) * 4), all = sizes.reduce((a, b) => a + b, 0);
    if (!(this.staging?.size >= all)) { this.staging?.destroy(); this.staging = this.buffer(all, GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST); }
    let at = 0;
    pieces.forEach(([buffer, offset], i) => { encoder.copyBufferToBuffer(buffer, offset, this.staging, at, sizes[i]); at += sizes[i]; });
    this.device.queue.submit([encoder.finish()]);
    await this.staging.mapAsync(GPUMapMode.READ, 0, all);
    const found = this.staging.getMappedRange(0, all).slice(0);
    this.staging.unmap();
    at = 0;
    return pieces.map(([, , size], i) => { const own = found.slice(at, at + size); at += sizes[i]; return own; });
  }
  places(arrays) { return arrays.map((x) => [this.heap, x.address, x.nbytes]); }
  named(arrays, found) { return Object.fromEntries(arrays.map((x, i) => [x.path, new globalThis[x.kind](found[i])])); }
  // So many steps over the data: {losses, finite, captures} of those that were made, the captures of the last one, and what
  // failed, the state as it was before that step. Steps a submit, and submits a step, follow the time that they take.
  run(count = 1) {
    if (!this.rows) throw new TypeError("There is no data to run over: give it first.");
    return this.queued(async () => {
      let left = count, found = { losses: [], finite: [], captures: {}, failed: null };
      while (left > 0 && !found.failed) {
        const before = performance.now(), one = await this.steps(Math.min(left, this.pace), this.rows), done = one.losses.length;
        this.adapt((performance.now() - before) / Math.max(done, 1), done);
        found = { ...one, losses: found.losses.concat(one.losses), finite: found.finite.concat(one.finite) };
        left -= done;
      }
      return found;
    });
  }
  adapt(ms, done) {
    this.pace = Math.max(1, Math.min(MOST, 2 * Math.max(done, this.pace >> 1), Math.floor(WANTED / ms)));
    this.parts = ms > 2 * WANTED ? Math.min(2 * this.parts, this.page.step.entries.length) : ms < WANTED / 2 ? 1 : this.parts;
  }
  // Change hyper-parameters by their names.
  async set(values) {
    const names = this.page.given.map(([path]) => path), places = Object.keys(values).map((name) => names.indexOf(`hyper.${name}`));
    const other = Object.keys(values).find((_, i) => places[i] < 0);
    if (other !== undefined) throw new TypeError(`There is no hyper-parameter ${other}; there is ${Object.keys(this.hyper()).join(", ") || "none"}.`);
    if (!Object.values(values).every((x) => typeof x === "number")) throw new TypeError("A hyper-parameter is a number.");
    return this.queued(() => Object.values(values).forEach((x, i) => {
      const [, kind, address] = this.page.given[places[i]], view = new DataView(new ArrayBuffer(8));
      write(view, kind, 0, this.given[places[i]] = kind === "i64" ? BigInt(x) : x);
      this.put(address, new Uint8Array(view.buffer));
    }));
  }
  async steps(count, rows) {
    const { device, page, heap, programs: { step } } = this, { outputs } = page.step;
    rows?.draw(count, this.key, this.made);
    step.begin(count, this.given);
    const losses = this.buffer(8 * count, GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST);
    let encoder = device.createCommandEncoder();
    for (let k = 0; k < count; k++) {
      encoder = step.record(encoder, k, rows?.pick(encoder, k), this.parts);
      encoder.copyBufferToBuffer(heap, page.loss, losses, 8 * k, 4);
      encoder.copyBufferToBuffer(heap, page.finite, losses, 8 * k + 4, 4);
    }
    const [status, kept, ...extras] = await this.read(encoder, [[step.status, 0, step.statusBytes], [losses, 0, 8 * count], ...this.places(outputs)]);
    losses.destroy();
    const { done, given, failed } = step.outcome(new DataView(status), this.given), seen = new DataView(kept);
    const each = (pick) => Array.from({ length: done }, (_, k) => pick(8 * k));
    this.given = given;
    this.made += BigInt(done);
    rows?.taken(done);
    return { losses: each((at) => seen.getFloat32(at, true)), finite: each((at) => Boolean(seen.getUint8(at + 4))), captures: failed ? {} : this.named(outputs, extras), failed };
  }
  // The hyper-parameters by their names.
  hyper() { return Object.fromEntries(this.page.given.flatMap(([path], i) => (path.startsWith("hyper.") ? [[path.slice(6), Number(this.given[i])]] : []))); }
  // Where training is in its data, and going on from there with a file of then.
  position() { return this.rows && { at: this.rows.at, first: String(this.rows.first) }; }
  async resume(file, { at, first }) { await this.load(file); this.rows.resume(at, this.key, BigInt(first)); }
  // The bytes of a file that step.load takes.
  save() { return this.queued(() => this.saved()); }
  async saved() {
    const [from, size] = this.page.state, [found] = await this.read(this.device.createCommandEncoder(), [[this.heap, from, size]]);
    this.page.given.forEach(([, kind, address], i) => write(new DataView(found), kind, address - from, this.given[i]));
    return this.file.written((place, nbytes) => new Uint8Array(found.slice(place - from, place - from + nbytes)));
  }
  // Take over a file of this step, whole or not at all.
  load(file) { return this.queued(() => this.loaded(file)); }
  async loaded(file) { this.restore(await this.file.read(file)); }
  // The state as it was exported.
  reset() {
    const start = bytes(this.page.start);
    return this.queued(async () => this.restore(this.file.table.map(([place, at, nbytes]) => [place, start.subarray(at, at + nbytes)])));
  }
  restore(arrays) {
    const [from, size] = this.page.state, state = new Uint8Array(size);
    for (const [place, own] of arrays) state.set(own, place - from);
    this.put(from, state);
    const view = new DataView(state.buffer), { key, step } = this.page.counters;
    this.key = [view.getUint32(key - from, true), view.getUint32(key - from + 4, true)];
    this.made = view.getBigInt64(step - from, true);
    this.given = this.page.given.map(([, kind, address]) => read(view, kind, address - from));
    this.rows?.begin();
  }
}
