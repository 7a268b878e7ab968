// The file of a state as step.save writes it: a head with digests and a seal, and the bytes of the arrays.
const hexadecimal = async (x) => Array.from(new Uint8Array(await globalThis.crypto.subtle.digest("SHA-256", x)), (b) => b.toString(16).padStart(2, "0")).join("");
const equal = (a, b) => a.length === b.length && a.every((x, i) => x === b[i]);

class StateFile {
  // `head` is the text of the head with zeros for what is computed, `table` [place in memory, start, bytes, boolean] of each
  // array, `places` where digests, seal and the description of the arrays stand in the file.
  constructor(head, table, places) {
    const text = new TextEncoder().encode(head);
    this.head = new Uint8Array(8 + text.length);
    new DataView(this.head.buffer).setBigUint64(0, BigInt(text.length), true);
    this.head.set(text, 8);
    Object.assign(this, { table, places });
  }

  // The bytes of a file whose arrays `bytes` gives by their places in memory.
  async written(bytes) {
    const { head, table, places } = this, file = new Uint8Array(head.length + places.DATA);
    const put = (text, at) => file.set(new TextEncoder().encode(text), at);
    file.set(head);
    for (const [i, [place, start, nbytes]] of table.entries()) {
      const own = bytes(place, nbytes);
      file.set(own, head.length + start);
      put(await hexadecimal(own), places.DIGESTS + 64 * i);
    }
    put(await hexadecimal(file.slice(8, head.length)), places.SEAL);
    return file;
  }

  // The digests of the arrays in a head like ours whose seal is right; null for any other.
  async digests(head) {
    const text = new TextDecoder("latin1").decode(head), { TABLE, TABLE_END } = this.places;
    const found = /^\{"__metadata__":\{"wholestep":"(?:[^"\\]|\\.)*","wholestep\.blocks":"([0-9a-f]*)","wholestep\.sha256":"([0-9a-f]{64})"\},/.exec(text);
    if (!found || found[1].length !== 64 * this.table.length) return null;
    const start = found[0].length, end = start + TABLE_END - TABLE;
    if (!equal(head.subarray(start, end), this.head.subarray(TABLE, TABLE_END)) || text.slice(end).trim()) return null;
    const blank = head.slice();
    blank.fill(48, start - 67, start - 3);
    return (await hexadecimal(blank)) === found[2] ? found[1] : null;
  }

  // The arrays of a file, each [its place in memory, its bytes]; nothing is given of a file that is not whole.
  async read(given) {
    const file = new Uint8Array(given.buffer ?? given, given.byteOffset ?? 0, given.byteLength);
    const length = file.length < 8 ? 0 : Number(new DataView(file.buffer, file.byteOffset).getBigUint64(0, true));
    const digests = length === file.length - 8 - this.places.DATA && (await this.digests(file.subarray(8, 8 + length)));
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
