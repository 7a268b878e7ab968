// The last state in files of the browser's own, two in turn, so that one is whole whatever ends the page meanwhile.
class Kept {
  static async open(page) {
    const found = new Kept(), own = latin(page.head.replace(/"wholestep":"(?:[^"\\]|\\.)*"/, "") + page.start);
    const stem = (await hexadecimal(own)).slice(0, 32);
    found.folder = await navigator.storage.getDirectory();
    found.names = [0, 1].map((turn) => `wholestep-${stem}-${turn}`);
    return found;
  }
  // Keep a checkpoint behind a line of facts.
  async keep(file, facts) {
    this.turn = 1 - (this.turn ?? 1);
    const handle = await this.folder.getFileHandle(this.names[this.turn], { create: true });
    const access = await handle.createSyncAccessHandle();
    try {
      access.truncate(0);
      access.write(new TextEncoder().encode(`${JSON.stringify(facts)}\n`));
      access.write(file);
      access.flush();
    } finally {
      access.close();
    }
  }
  // Give the checkpoints to `take`, the newest first, until it takes one; the facts of that one.
  async newest(take) {
    const found = [];
    for (const [turn, name] of this.names.entries()) {
      // A file that there is not yet is no error.
      const handle = await this.folder.getFileHandle(name).catch(() => null);
      if (handle) found.push([await handle.getFile(), turn]);
    }
    for (const [file, turn] of found.sort(([a], [b]) => b.lastModified - a.lastModified)) {
      try {
        const both = new Uint8Array(await file.arrayBuffer()), end = both.indexOf(10);
        const facts = JSON.parse(new TextDecoder().decode(both.subarray(0, end)));
        await take(both.slice(end + 1), facts);
        this.turn = turn;
        return facts;
      } catch {
        // Cut off when the page ended: the other one is older and whole.
      }
    }
    return null;
  }
  async forget() {
    for (const name of this.names) await this.folder.removeEntry(name).catch(() => {});
  }
}
