// The last state in files of the browser's own, two in turn, so that one is whole whatever ends the page meanwhile.
class Kept {
  static async open(page) {
    const found = new Kept();
    found.folder = await navigator.storage.getDirectory();
    found.stem = `wholestep-${(await hexadecimal(latin(page.head.replace(/"wholestep":"(?:[^"\\]|\\.)*"/, "") + page.start))).slice(0, 32)}`;
    return found;
  }
  names() { return [0, 1].map((turn) => `${this.stem}-${turn}`); }
  // Keep a checkpoint, and facts beside it.
  async keep(file, facts) {
    const head = new TextEncoder().encode(JSON.stringify(facts)), both = new Uint8Array(4 + head.length + file.length);
    new DataView(both.buffer).setUint32(0, head.length, true);
    both.set(head, 4);
    both.set(file, 4 + head.length);
    this.turn = 1 - (this.turn ?? 1);
    const access = await (await this.folder.getFileHandle(this.names()[this.turn], { create: true })).createSyncAccessHandle();
    try {
      access.truncate(0);
      access.write(both, { at: 0 });
      access.flush();
    } finally { access.close(); }
  }
  // Give the checkpoints to `take`, the newest first, until it takes one; the facts of that one.
  async newest(take) {
    const found = [];
    for (const [turn, name] of this.names().entries()) {
      // A file that there is not yet is no error.
      try { found.push([await (await this.folder.getFileHandle(name)).getFile(), turn]); } catch {}
    }
    for (const [file, turn] of found.sort(([a], [b]) => b.lastModified - a.lastModified)) {
      try {
        const both = new Uint8Array(await file.arrayBuffer()), end = 4 + new DataView(both.buffer).getUint32(0, true);
        const facts = JSON.parse(new TextDecoder().decode(both.subarray(4, end)));
        await take(both.slice(end), facts);
        this.turn = turn;
        return facts;
      } catch {
        // Cut off when the page ended: the other one is older and whole.
      }
    }
    return null;
  }
  async forget() {
    for (const name of this.names()) await this.folder.removeEntry(name).catch(() => {});
  }
}
