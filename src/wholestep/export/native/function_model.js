const INPUTS = @INPUTS@;
const OUTPUTS = @OUTPUTS@;

//     const f = await instantiate(bytes of @NAME@.wasm);
//     const outputs = f.call({ x: [1, 2, 3] });
//
// `call` takes numbers by the paths of arguments and returns typed arrays by the paths of results. `run` is the same on
// `arrays`, which has both by their paths, as typed arrays over the memory of the program.
class Model extends Program {
  // The results, in arrays of the caller's own, for arguments by their paths: arrays, or single numbers.
  call(inputs = {}) {
    for (const path of INPUTS) {
      if (!(path in inputs)) throw new TypeError(`there is no ${path} among the arguments`);
      const given = Object(inputs[path]) === inputs[path] ? inputs[path] : [inputs[path]];
      const own = this.arrays[path];
      if (given.length !== own.length) throw new RangeError(`${path} has ${own.length} numbers, not ${given.length}`);
      own.set(given);
    }
    this.run();
    return Object.fromEntries(OUTPUTS.map((path) => [path, this.arrays[path].slice()]));
  }
}
