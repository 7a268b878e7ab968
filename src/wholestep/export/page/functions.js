// Arrays that come from outside: functions on the state of a training, called with arrays by their paths.
// An array that is one for an input, any number of rows where its shape begins with a word.
function checked({ path, kind, shape, nbytes }, x) {
  const wanted = `${path}: ${kind} of ${shape.join(" x ") || "one number"}`;
  if (!(x instanceof globalThis[kind])) throw new TypeError(`${wanted} is wanted, not ${x?.constructor.name}.`);
  if (typeof shape[0] === "string" || x.byteLength === nbytes) return x;
  throw new RangeError(`${wanted} is wanted, not one of ${x.length}.`);
}
Object.assign(Training.prototype, {
  // A function on the state as it is now: its results by their paths, of arrays by their paths.
  call(name, arrays) { return this.queued(() => this.called(name, arrays)); },
  async called(name, arrays) {
    known("function", Object.keys(this.functions), [name]);
    const f = this.functions[name];
    this.fill(f.spec.inputs, arrays);
    f.begin(1, this.given);
    const encoder = this.device.createCommandEncoder();
    f.record(encoder, 0);
    const [status, ...found] = await this.read(encoder, [[f.status, 0, f.statusBytes], ...this.places(f.spec.outputs)]);
    const { failed } = f.outcome(new DataView(status));
    if (failed) throw new RangeError(failed);
    return this.named(f.spec.outputs, found);
  },
  // Put arrays in the places of inputs, all of them or none.
  fill(inputs, arrays) {
    const given = inputs.map((x) => checked(x, arrays[x.path]));
    known("input", inputs.map((x) => x.path), Object.keys(arrays));
    inputs.forEach((x, i) => this.put(x.address, own(given[i])));
  },
});
