// The file of a state as step.save writes it: a head with digests and a seal, and the bytes of the arrays.
const hexadecimal = async (x) => Array.from(new Uint8Array(await globalThis.crypto.subtle.digest("SHA-256", x)), (b) => b.toString(16).padStart(2, "0")).join("");
const latin = (text) => Uint8Array.from(text, (c) => c.charCodeAt(0));
const equal = (a, b) => a.length === b.length && a.every((x, i) => x === b[i]);

class StateFile {
  // `head` is the text of the head with zeros for digests and seal, and without the places of the arrays in the file, which
  // follow from their types; `own` the place of each in memory.
  constructor(head, own) {
    // Of each array [place in memory, start, bytes, boolean].
    this.table = [];
    this.data = 0;
    const text = head.replace(/"dtype":"([A-Z]+)(\d*)","shape":\[([\d,]*)\]/g, (found, kind, bits, shape) => {
      const start = this.data;
      this.data += shape.split(",").reduce((n, x) => n * (x || 1), (bits || 8) / 8);
      this.table.push([own[this.table.length], start, this.data - start, kind === "BOOL"]);
      return `${found},"data_offsets":[${start},${this.data}]`;
    });
    this.head = new Uint8Array(8 + text.length);
    new DataView(this.head.buffer).setBigUint64(0, BigInt(text.length), true);
    this.head.set(latin(text), 8);
    const behind = (words) => 8 + text.indexOf(words) + words.length;
    Object.assign(this, { digests: behind('"wholestep.blocks":"'), seal: behind('"wholestep.sha256":"'), end: 8 + text.trimEnd().length });
  }

  // The bytes of a file whose arrays `bytes` gives by their places in memory.
  async written(bytes) {
    const { head, table, digests, seal } = this, file = new Uint8Array(head.length + this.data);
    const put = (text, at) => file.set(latin(text), at);
    file.set(head);
    for (const [i, [place, start, nbytes]] of table.entries()) {
      const own = bytes(place, nbytes);
      file.set(own, head.length + start);
      put(await hexadecimal(own), digests + 64 * i);
    }
    put(await hexadecimal(file.slice(8, head.length)), seal);
    return file;
  }

  // The digests of the arrays in a head like ours whose seal is right; null for any other.
  async digestsOf(head) {
    const text = new TextDecoder("latin1").decode(head), table = this.head.subarray(this.seal + 67, this.end);
    const found = /^\{"__metadata__":\{"wholestep":"(?:[^"\\]|\\.)*","wholestep\.blocks":"([0-9a-f]*)","wholestep\.sha256":"([0-9a-f]{64})"\},/.exec(text);
    if (!found || found[1].length !== 64 * this.table.length) return null;
    const start = found[0].length, end = start + table.length;
    if (!equal(head.subarray(start, end), table) || text.slice(end).trim()) return null;
    const blank = head.slice();
    blank.fill(48, start - 67, start - 3);
    return (await hexadecimal(blank)) === found[2] ? found[1] : null;
  }

  // The arrays of a file, each [its place in memory, its bytes]; nothing is given of a file that is not whole.
  async read(given) {
    const file = new Uint8Array(given.buffer ?? given, given.byteOffset ?? 0, given.byteLength);
    const length = file.length < 8 ? 0 : Number(new DataView(file.buffer, file.byteOffset).getBigUint64(0, true));
    const digests = length === file.length - 8 - this.data && (await this.digestsOf(file.subarray(8, 8 + length)));
    if (!digests) throw new TypeError("This file is no checkpoint of this step.");
    const arrays = [];
    for (const [i, [place, start, nbytes, boolean]] of this.table.entries()) {
      const own = file.slice(8 + length + start, 8 + length + start + nbytes);
      if ((await hexadecimal(own)) !== digests.slice(64 * i, 64 * i + 64) || (boolean && own.some((b) => b > 1)))
        throw new RangeError("This checkpoint is damaged.");
      arrays.push([place, own]);
    }
    return arrays;
  }
}
