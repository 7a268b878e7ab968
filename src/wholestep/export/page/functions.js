// Arrays that come from outside: functions on the state of a training, called with arrays by their paths.
// An array that is one for an input, any number of rows where its shape begins with a word.
function checked({ path, kind, shape, nbytes }, x) {
  const wanted = `${path}: ${kind} of ${shape.join(" x ") || "one number"}`;
  if (!(x instanceof globalThis[kind])) throw new TypeError(`${wanted} is wanted, not ${x?.constructor.name}.`);
  if (typeof shape[0] !== "string" && x.byteLength !== nbytes) throw new RangeError(`${wanted} is wanted, not one of ${x.length}.`);
  return x;
}
function known(inputs, arrays) {
  const paths = inputs.map((x) => x.path), other = Object.keys(arrays).find((path) => !paths.includes(path));
  if (other !== undefined) throw new TypeError(`There is no input ${other}; there is ${paths.join(", ") || "none"}.`);
}
Object.assign(Training.prototype, {
  // A function on the state as it is now: its results by their paths, of arrays by their paths.
  call(name, arrays) { return this.queued(() => this.called(name, arrays)); },
  async called(name, arrays) {
    const f = Object.hasOwn(this.page.functions, name) && this.programs[name];
    if (!f) throw new TypeError(`There is no function ${name}; there is ${Object.keys(this.page.functions).join(", ") || "none"}.`);
    this.fill(f.spec.inputs, arrays);
    f.begin(1, this.given);
    const encoder = this.device.createCommandEncoder();
    f.record(encoder, 0);
    const [status, ...found] = await this.read(encoder, [[f.status, 0, f.statusBytes], ...this.places(f.spec.outputs)]);
    const { failed } = f.outcome(new DataView(status), this.given);
    if (failed) throw new RangeError(failed);
    return this.named(f.spec.outputs, found);
  },
  // Put arrays in the places of inputs, all of them or none.
  fill(inputs, arrays) {
    const given = inputs.map((x) => checked(x, arrays[x.path]));
    known(inputs, arrays);
    inputs.forEach((x, i) => this.put(x.address, own(given[i])));
  },
});
