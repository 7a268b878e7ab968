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
// `shapes` has their shapes. Functions beside the step are run by their names, and `arrays` has theirs as "name.path".

const ARRAYS = @ARRAYS@;
const STATE = @STATE@;
const FUNCTIONS = @FUNCTIONS@;
const TEXT = new TextEncoder().encode(@HEAD@);
const HEAD = new Uint8Array(8 + TEXT.length);
new DataView(HEAD.buffer).setBigUint64(0, BigInt(TEXT.length), true);
HEAD.set(TEXT, 8);
const KEPT = @KEPT@;
const [STACK, BLOCK, TOP, DATA, DIGESTS, SEAL, TABLE, TABLE_END] = [@PLACES@];
const KINDS = {
  Uint8Array, Int8Array, Uint16Array, Int16Array, Uint32Array, Int32Array,
  BigUint64Array, BigInt64Array, Float32Array, Float64Array,
};
const PAGE = 65536;

async function digest(bytes) {
  const found = new Uint8Array(await globalThis.crypto.subtle.digest("SHA-256", bytes));
  return Array.from(found, (b) => b.toString(16).padStart(2, "0")).join("");
}

const same = (a, b) => a.length === b.length && a.every((x, i) => x === b[i]);

// The digests of the arrays in a head like ours whose seal is right; null for any other.
async function checked(head) {
  const text = new TextDecoder("latin1").decode(head);
  const found = /^\{"__metadata__":\{"wholestep":"(?:[^"\\]|\\.)*","wholestep\.blocks":"([0-9a-f]*)","wholestep\.sha256":"([0-9a-f]{64})"\},/.exec(text);
  if (!found || found[1].length !== 64 * STATE.length) return null;
  const table = head.subarray(found[0].length, found[0].length + TABLE_END - TABLE);
  if (!same(table, HEAD.subarray(TABLE, TABLE_END)) || text.slice(found[0].length + TABLE_END - TABLE).trim()) return null;
  const blank = head.slice();
  blank.fill(48, found[0].length - 67, found[0].length - 3);
  return (await digest(blank)) === found[2] ? found[1] : null;
}

class Step {
  constructor(instance, memory) {
    this.instance = instance;
    this.bytes = new Uint8Array(memory.buffer);
    this.arrays = {};
    this.shapes = {};
    for (const [path, kind, shape, place, count] of ARRAYS) {
      this.arrays[path] = new KINDS[kind](memory.buffer, BLOCK + place, count);
      this.shapes[path] = shape;
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
    const given = new Uint8Array(file.buffer ?? file, file.byteOffset ?? 0, file.byteLength);
    const length = given.length < 8 ? 0 : Number(new DataView(given.buffer, given.byteOffset).getBigUint64(0, true));
    if (length !== given.length - 8 - DATA) throw new TypeError("not a state of this step");
    const digests = await checked(given.subarray(8, 8 + length));
    if (!digests) throw new TypeError("not a state of this step");
    const data = given.subarray(8 + length);
    for (const [i, [, start, nbytes, boolean]] of STATE.entries()) {
      const own = data.subarray(start, start + nbytes);
      if ((await digest(own)) !== digests.slice(64 * i, 64 * i + 64) || (boolean && own.some((b) => b > 1)))
        throw new RangeError("a damaged state");
    }
    for (const [place, start, nbytes] of STATE) this.bytes.set(data.subarray(start, start + nbytes), BLOCK + place);
  }

  // The state as the bytes of a file that step.load of wholestep takes.
  async save() {
    const file = new Uint8Array(HEAD.length + DATA);
    const put = (text, at) => file.set(new TextEncoder().encode(text), at);
    file.set(HEAD);
    for (const [i, [place, start, nbytes]] of STATE.entries()) {
      const own = this.bytes.subarray(BLOCK + place, BLOCK + place + nbytes);
      file.set(own, HEAD.length + start);
      put(await digest(own.slice()), DIGESTS + 64 * i);
    }
    put(await digest(file.slice(8, HEAD.length)), SEAL);
    return file;
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
