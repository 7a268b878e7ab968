// @NAME@.mjs: @TITLE@, in a browser or in node, without a library.
//
//     const model = await instantiate(bytes of @NAME@.wasm);
//     await model.load(bytes of a state that step.save of wholestep has written);
//     model.arrays["batch.x"].set(...);
//     model.step();
//     model.arrays.loss[0];
//     const file = await model.save();
//
// `arrays` has the batch, the results and the state by their paths, as typed arrays over the memory of the program;
// `shapes` has their shapes, and `formats` the names of half precisions, float16 or bfloat16, whose typed arrays have
// bits: `numbers(bits, format)` makes a Float32Array of them, and `halves(numbers, format)` bits of numbers. Functions
// beside the step are run by their names, and `arrays` has theirs as "name.path".

const ARRAYS = @ARRAYS@;
const STATE = @STATE@;
const FUNCTIONS = @FUNCTIONS@;
const FILE_HEAD = @HEAD@;
const KEPT = @KEPT@;
const [STACK, BLOCK, TOP] = @MEMORY@;
const KINDS = {
  Uint8Array, Int8Array, Uint16Array, Int16Array, Uint32Array, Int32Array,
  BigUint64Array, BigInt64Array, Float32Array, Float64Array, float16: Uint16Array, bfloat16: Uint16Array,
};
const PAGE = 65536;

@HALVES@@STATE_FILE@
class Step {
  constructor(instance, memory) {
    this.instance = instance;
    this.file = new StateFile(FILE_HEAD, STATE);
    this.bytes = new Uint8Array(memory.buffer);
    this.arrays = {};
    this.shapes = {};
    this.formats = {};
    for (const [path, kind, shape, place, count] of ARRAYS) {
      this.arrays[path] = new KINDS[kind](memory.buffer, BLOCK + place, count);
      this.shapes[path] = shape;
      if (kind.endsWith("float16")) this.formats[path] = kind;
    }
    for (const [name, failures] of Object.entries(FUNCTIONS)) {
      const run = instance.exports["@NAME@_run_" + name];
      const [copy, start, size] = name === "step" ? KEPT : [0, 0, 0];
      this[name] = () => {
        if (size) this.bytes.copyWithin(BLOCK + copy, BLOCK + start, BLOCK + start + size);
        const site = run(BLOCK);
        if (site && size) this.bytes.copyWithin(BLOCK + start, BLOCK + copy, BLOCK + copy + size);
        if (site) throw new RangeError(failures[site - 1]);
      };
    }
  }

  // Take over a state, whole or not at all.
  async load(file) {
    for (const [place, own] of await this.file.read(file)) this.bytes.set(own, BLOCK + place);
  }

  // The state as the bytes of a file that step.load of wholestep takes.
  save() {
    return this.file.written((place, nbytes) => this.bytes.slice(BLOCK + place, BLOCK + place + nbytes));
  }
}

// The program in memory of its own, with a state of zeros.
export async function instantiate(code) {
  const pages = Math.ceil(TOP / PAGE);
  const memory = new WebAssembly.Memory({ initial: pages });
  const env = {
    __linear_memory: memory,
    __stack_pointer: new WebAssembly.Global({ value: "i32", mutable: true }, STACK),
    __indirect_function_table: new WebAssembly.Table({ initial: 1, element: "anyfunc" }),
  };
  const { instance } = await WebAssembly.instantiate(code, { env });
  return new Step(instance, memory);
}
