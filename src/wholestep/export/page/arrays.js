// Arrays on the page: what a person types or drops for functions on the state, and what these and captures give.
const MOST_ROWS = 1000, MOST_BARS = 64;
const size = ({ shape }) => shape.reduce((a, b) => a * b, 1);
const made = (kind, words = "", more = {}) => { const it = Object.assign(document.createElement(kind), more); it.append(words); return it; };
const titled = (x) => `${x.path} (${x.kind.replace("Array", "").toLowerCase()}${x.shape.length ? " " : ""}${x.shape.join(" × ")})`;
const NPY = { f4: [4, "getFloat32"], f8: [8, "getFloat64"], i1: [1, "getInt8"], u1: [1, "getUint8"], b1: [1, "getUint8"], i2: [2, "getInt16"], u2: [2, "getUint16"], i4: [4, "getInt32"], u4: [4, "getUint32"], i8: [8, "getBigInt64"], u8: [8, "getBigUint64"] };
// The numbers in a file of NumPy.
function numbersOfNpy(buffer) {
  const view = new DataView(buffer), wide = view.getUint8(6) > 1, start = wide ? 12 : 10;
  const length = wide ? view.getUint32(8, true) : view.getUint16(8, true);
  const head = new TextDecoder("latin1").decode(new Uint8Array(buffer, start, length));
  const [, order, kind] = /'descr': *'([<>|=])(\w\d)'/.exec(head) ?? [], known = NPY[kind];
  if (!known || order === ">" || /'fortran_order': *True/.test(head)) throw new Error("This .npy file is none of little-endian numbers in C order.");
  return Array.from({ length: Math.floor((buffer.byteLength - start - length) / known[0]) }, (_, i) => view[known[1]](start + length + known[0] * i, true));
}
// The numbers in a text, whatever stands between them: commas, spaces, lines and brackets.
function numbersOfText(text) {
  return text.split(/[\s,;[\]]+/).filter(Boolean).map((one) => {
    const x = one === "true" ? 1 : one === "false" ? 0 : /^[-+]?(inf|infinity)$/i.test(one) ? (one[0] === "-" ? -Infinity : Infinity) : Number(one);
    if (Number.isNaN(x) && !/^nan$/i.test(one)) throw new Error(`"${one}" is no number.`);
    return /^[-+]?\d{16,}$/.test(one) ? BigInt(one) : x;
  });
}
async function numbersOfFile(file) {
  const buffer = await file.arrayBuffer(), [first, ...rest] = new Uint8Array(buffer, 0, Math.min(6, buffer.byteLength));
  return first === 0x93 && String.fromCharCode(...rest) === "NUMPY" ? numbersOfNpy(buffer) : numbersOfText(new TextDecoder().decode(buffer));
}
// Numbers as one typed array for each row of an input.
function rowsOf(x, numbers) {
  const n = size(x), Kind = globalThis[x.kind], big = x.kind.startsWith("Big");
  if (!numbers.length || numbers.length % n) throw new Error(`${x.path} takes ${n} number${n > 1 ? "s" : ""}, or rows of so many, and ${numbers.length} are given.`);
  if (numbers.length / n > MOST_ROWS) throw new Error(`A page takes ${MOST_ROWS} rows at a time, and ${numbers.length / n} are given.`);
  const cast = numbers.map((one) => {
    if (!/Float/.test(x.kind) && !(typeof one === "bigint" || Number.isInteger(one))) throw new Error(`${x.path} takes whole numbers, and ${one} is none.`);
    return big ? BigInt(one) : Number(one);
  });
  return Array.from({ length: cast.length / n }, (_, i) => Kind.from(cast.slice(n * i, n * i + n)));
}
const short = (x) => (typeof x === "bigint" || Number.isInteger(x) ? String(x) : Number(x).toPrecision(5));
// Pictures of an array whose last two axes are those of images, one for each image; black is the least number of all.
function pictures({ path, shape }, row) {
  const [height, width] = shape.slice(-2), kept = Array.from(row).filter(Number.isFinite), low = Math.min(...kept), high = Math.max(...kept);
  return Array.from({ length: row.length / (height * width) }, (_, k) => {
    const canvas = made("canvas", "", { width, height, className: "picture" }), pen = canvas.getContext("2d"), image = pen.createImageData(width, height);
    image.data.forEach((_, i, data) => { data[i] = i % 4 === 3 ? 255 : (255 * (row[height * width * k + (i >> 2)] - low)) / (high - low || 1); });
    pen.putImageData(image, 0, 0);
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${path}, image ${k}: black is ${short(low)}, and white ${short(high)}`);
    return canvas;
  });
}
const isPictures = (x) => x.kind === "Float32Array" && x.shape.length > 1 && x.shape.slice(-2).every((n) => n >= 4) && size(x) <= 16 * x.shape.at(-1) * x.shape.at(-2);
// Results as elements: bars for a few numbers, a line for each row of more; pictures where they are images.
function shown(outputs, found) {
  return outputs.flatMap((x) => {
    const rows = found.map((one) => one[x.path]), [row] = rows, head = made("div");
    head.append(made("h3", titled(x)), ...(rows.length === 1 && isPictures(x) ? pictures(x, row) : []));
    if (rows.length > 1 || row.length > MOST_BARS) {
      const lines = rows.map((one) => Array.from(one.subarray(0, MOST_BARS), short).join(" ") + (one.length > MOST_BARS ? ` … ${one.length} in all` : ""));
      return [head, made("pre", lines.join("\n"), { tabIndex: 0 })];
    }
    const numbers = Array.from(row, Number), kept = numbers.filter(Number.isFinite);
    const list = made("dl", "", { className: "bars" });
    numbers.forEach((value, i) => {
      const bar = made("meter", "", { min: Math.min(0, ...kept), max: Math.max(0, ...kept) || 1, value: Number.isFinite(value) ? value : 0 });
      bar.setAttribute("aria-label", `${x.path}[${i}]`);
      const dd = made("dd");
      dd.append(bar, short(row[i]));
      list.append(made("dt", String(i)), dd);
    });
    return [head, list];
  });
}
const isImage = (x) => x.kind === "Float32Array" && x.shape.length > 1 && x.shape.slice(-2).every((n) => n >= 8) && size(x) === x.shape.at(-1) * x.shape.at(-2);
// One function: a place for each of its inputs, and its results, made anew whenever inputs or parameters change.
class FunctionPanel {
  constructor(name, { inputs, outputs }) {
    Object.assign(this, { name, inputs, outputs, given: new Map(), asked: false, stale: false });
    this.section = made("section", made("h2", name), { id: `function-${name}` });
    for (const x of inputs) this.section.append(...(isImage(x) ? [this.drawing(x)] : []), this.field(x));
    this.said = made("p", "", { className: "said" });
    this.said.setAttribute("role", "status");
    this.results = made("div", "", { className: "results" });
    this.section.append(this.said, this.results);
  }
  field(x) {
    const box = made("label", titled(x), { className: "field" }), n = size(x);
    const area = made("textarea", "", { rows: 2, placeholder: `${n} number${n > 1 ? "s" : ""}, or a file dropped here: .npy, .csv, .json`, spellcheck: false });
    const file = made("input", "", { type: "file", accept: ".npy,.csv,.json,.txt" });
    file.setAttribute("aria-label", `File for ${x.path}`);
    const take = (numbers) => this.take(x, numbers);
    const drop = (files) => { if (files[0]) { area.value = ""; area.placeholder = files[0].name; take(() => numbersOfFile(files[0])); } };
    area.oninput = () => take(() => numbersOfText(area.value));
    file.onchange = () => drop(file.files);
    box.ondragover = (event) => event.preventDefault();
    box.ondrop = (event) => { event.preventDefault(); drop(event.dataTransfer.files); };
    box.append(area, file);
    return box;
  }
  async take(x, numbers) {
    try {
      const given = await numbers();
      if (given.length) this.given.set(x.path, rowsOf(x, given));
      else this.given.delete(x.path);
      this.say("");
      this.ask();
    } catch (error) { this.given.delete(x.path); this.say(error.message); }
  }
  // A field to draw on for an image of one channel: each pixel is the part of it that is drawn over.
  drawing(x) {
    const [height, width] = x.shape.slice(-2), scale = Math.max(1, Math.floor(240 / Math.max(height, width)));
    const canvas = made("canvas", "", { width: width * scale, height: height * scale, className: "drawing" }), pen = canvas.getContext("2d", { willReadFrequently: true });
    canvas.setAttribute("aria-label", `A field to draw ${x.path} on; its numbers can be typed below`);
    canvas.setAttribute("role", "img");
    let last = null;
    const at = (event) => { const box = canvas.getBoundingClientRect(); return [((event.clientX - box.left) * canvas.width) / box.width, ((event.clientY - box.top) * canvas.height) / box.height]; };
    const look = () => {
      const { data } = pen.getImageData(0, 0, canvas.width, canvas.height), found = Array(height * width).fill(0);
      for (let i = 0; i < data.length / 4; i++) found[width * Math.floor(i / canvas.width / scale) + Math.floor((i % canvas.width) / scale)] += data[4 * i + 3] / (255 * scale * scale);
      this.take(x, () => found);
    };
    const line = (event) => {
      const here = at(event);
      Object.assign(pen, { lineWidth: canvas.width / 9, lineCap: "round", lineJoin: "round" });
      pen.beginPath(); pen.moveTo(...(last ?? here)); pen.lineTo(...here); pen.stroke();
      last = here;
      look();
    };
    canvas.onpointerdown = (event) => { event.preventDefault(); canvas.setPointerCapture(event.pointerId); last = null; line(event); };
    canvas.onpointermove = (event) => { if (last) line(event); };
    canvas.onpointerup = canvas.onpointercancel = () => { last = null; };
    const clear = made("button", "Clear", { type: "button", onclick: () => { pen.clearRect(0, 0, canvas.width, canvas.height); this.given.delete(x.path); this.results.replaceChildren(); } });
    const box = made("p", "", { className: "bar" });
    box.append(canvas, clear);
    return box;
  }
  say(words) { this.said.textContent = words; this.said.className = words ? "said bad" : "said"; if (words) this.results.replaceChildren(); }
  // One call at a time: what changes meanwhile is asked once more.
  ask() {
    const lists = this.inputs.map((x) => this.given.get(x.path));
    if (lists.includes(undefined) || one("controls").disabled) return;
    if (this.asked) { this.stale = true; return; }
    const counts = new Set(lists.map((rows) => rows.length));
    if (counts.size > 1) { this.say(`The inputs have ${[...counts].join(" and ")} rows.`); return; }
    this.asked = true;
    const rows = Array.from({ length: lists[0]?.length ?? 1 }, (_, i) => Object.fromEntries(this.inputs.map((x, k) => [x.path, lists[k][i]])));
    tell("call", { name: this.name, rows });
  }
  heard({ found, failed }) {
    this.asked = false;
    // An answer to what is no longer asked replaces no word about what is typed now.
    if (!this.inputs.every((x) => this.given.has(x.path))) return;
    this.say(failed ?? "");
    if (found) this.results.replaceChildren(...shown(this.outputs, found));
    if (this.stale) { this.stale = false; this.ask(); }
  }
}
const panels = Object.fromEntries(Object.entries(program.functions).map(([name, f]) => [name, new FunctionPanel(name, f)]));
for (const panel of Object.values(panels)) one("functions").append(panel.section);
const captures = made("section", "", { id: "captures" });
one("functions").append(captures);
const refresh = () => { for (const panel of Object.values(panels)) panel.ask(); };
HEARD.called = ({ name, ...result }) => panels[name].heard(result);
HEARD.changed = refresh;
HEARD.captured = (found) => captures.replaceChildren(made("h2", "Captures of the last step"), ...shown(program.step.outputs, [found]));
