// @NAME@.mjs: @TITLE@, in a browser or in node, without a library.
//
// `instantiate(bytes of @NAME@.wasm)` makes a Model, the class below with a line for each thing that it does. Its `arrays`
// are typed arrays over the memory of the program by their paths, `shapes` has their shapes, and `formats` the names of
// half precisions, float16 or bfloat16, whose typed arrays have bits: `numbers(bits, format)` makes a Float32Array of
// them, and `halves(numbers, format)` bits of numbers.

const ARRAYS = @ARRAYS@;
const FUNCTIONS = @FUNCTIONS@;
const KEPT = @KEPT@;
const [STACK, BLOCK, TOP] = @MEMORY@;
const KINDS = {
  Uint8Array, Int8Array, Uint16Array, Int16Array, Uint32Array, Int32Array,
  BigUint64Array, BigInt64Array, Float32Array, Float64Array, float16: Uint16Array, bfloat16: Uint16Array,
};
const PAGE = 65536;

@HALVES@
class Program {
  constructor(instance, memory) {
    this.instance = instance;
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
}

@OWN@
// The program in memory of its own, which is zeros.
export async function instantiate(code) {
  const pages = Math.ceil(TOP / PAGE);
  const memory = new WebAssembly.Memory({ initial: pages });
  const env = {
    __linear_memory: memory,
    __stack_pointer: new WebAssembly.Global({ value: "i32", mutable: true }, STACK),
    __indirect_function_table: new WebAssembly.Table({ initial: 1, element: "anyfunc" }),
  };
  const { instance } = await WebAssembly.instantiate(code, { env });
  return new Model(instance, memory);
}
