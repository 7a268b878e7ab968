// The page: buttons, the curve of losses, and files in both directions; the work is done in a worker.
const one = (id) => document.getElementById(id), losses = [];
const text = (id) => one(id).textContent, program = JSON.parse(text("program"));
const worker = new Worker(URL.createObjectURL(new Blob([text("runtime")], { type: "text/javascript" })));
const tell = (name, value) => worker.postMessage({ name, value });
let skipped = 0, running = false;
function say(words, bad = false) {
  one("status").textContent = words;
  one("status").className = bad ? "bad" : "";
}
function state(on) {
  running = on;
  one("start").textContent = on ? "Pause" : "Start";
}
// The numbers of elements by their ids.
function show(values) {
  for (const [id, value] of Object.entries(values)) one(id).textContent = value;
}
function draw() {
  const canvas = one("curve"), pen = canvas.getContext("2d"), style = getComputedStyle(document.body);
  const { clientWidth: width, clientHeight: height } = canvas, scale = devicePixelRatio;
  [canvas.width, canvas.height] = [width * scale, height * scale];
  pen.scale(scale, scale);
  const shown = losses.slice(-20000).filter(Number.isFinite);
  if (shown.length < 2) return;
  const low = shown.reduce((a, b) => Math.min(a, b)), high = shown.reduce((a, b) => Math.max(a, b));
  const place = (x) => 8 + (height - 24) * (1 - (x - low) / (high - low || 1));
  Object.assign(pen, { fillStyle: style.color, strokeStyle: style.getPropertyValue("--mark"), font: "12px system-ui" });
  pen.fillText(high.toPrecision(4), 4, 14);
  pen.fillText(low.toPrecision(4), 4, height - 4);
  // Each loss is a thin line, and a mean that forgets after a fiftieth of them, ten at least, a thick one.
  const every = Math.max(1, Math.floor(shown.length / width)), window = Math.max(10, shown.length / 50);
  let mean = 0;
  const smooth = shown.map((x, i) => (mean += (x - mean) * Math.max(1 / (i + 1), 1 / window)));
  for (const [line, lineWidth, globalAlpha] of [[shown, 1, 0.4], [smooth, 2.5, 1]]) {
    const points = line.filter((_, i) => i % every === 0 || i === line.length - 1);
    Object.assign(pen, { lineWidth, globalAlpha });
    pen.beginPath();
    points.forEach((x, i) => pen.lineTo(64 + ((width - 72) * i) / (points.length - 1), place(x)));
    pen.stroke();
  }
  show({ smooth: mean.toPrecision(5) });
}
// The losses of more steps, shown.
function taken(found) {
  losses.push(...found);
  show({ steps: losses.length });
  if (losses.length) show({ loss: losses.at(-1).toPrecision(9) });
  draw();
}
// The field of a hyper-parameter, made when it is first wanted.
function hyperField(name) {
  const id = `hyper-${name}`;
  if (one(id)) return one(id);
  const field = Object.assign(document.createElement("input"), { id, type: "number", step: "any" });
  field.onchange = () => {
    if (Number.isFinite(field.valueAsNumber)) tell("set", { [name]: field.valueAsNumber });
    else field.value = field.defaultValue;
  };
  const label = document.createElement("label");
  label.append(`${name} `, field);
  one("hyper").append(label);
  return field;
}
const HEARD = {
  ready: (name) => {
    say(`Ready on ${name || "an adapter without a name"}.`);
    one("controls").disabled = false;
    if (location.hash === "#start") one("start").click();
    HEARD.changed?.();
  },
  losses: ({ losses: found, finite, captures, rate }) => {
    skipped += finite.filter((x) => !x).length;
    taken(found);
    show({ rate: Number(rate.toPrecision(3)), skipped });
    document.title = `${losses.length} steps, loss ${losses.at(-1).toPrecision(4)}`;
    if (Object.keys(captures).length) HEARD.captured?.(captures);
    HEARD.changed?.();
  },
  resumed: ({ losses: found, steps }) => {
    taken(found);
    say(`Goes on from step ${steps}, which this browser has kept. Reset begins anew.`);
    HEARD.changed?.();
  },
  unkept: (reason) => say(`This browser keeps no copy of the state (${reason}): download checkpoints.`),
  hyper: (values) => {
    for (const [name, value] of Object.entries(values)) {
      const field = hyperField(name);
      field.value = field.defaultValue = value;
    }
    one("hyper").parentNode.hidden = !one("hyper").childElementCount;
  },
  paused: () => say("Paused."),
  reset: () => {
    losses.length = skipped = 0;
    show({ steps: 0, loss: "–", smooth: "–", rate: "–", skipped });
    draw();
    say("As it was exported.");
    HEARD.changed?.();
  },
  saved: (file) => {
    const href = URL.createObjectURL(new Blob([file]));
    Object.assign(document.createElement("a"), { href, download: "step.safetensors" }).click();
    say("Saved: step.load takes the file.");
  },
  loaded: () => { say("Loaded: training goes on from the checkpoint."); HEARD.changed?.(); },
  failed: (words) => { state(false); say(words, true); },
};
worker.onmessage = ({ data: { name, value } }) => HEARD[name](value);
worker.onerror = ({ message }) => HEARD.failed(message);
one("start").onclick = () => {
  state(!running);
  tell(running ? "start" : "pause");
  if (running) say("Training.");
};
one("once").onclick = () => tell("run", 1);
one("reset").onclick = () => tell("reset");
one("save").onclick = () => tell("save");
one("load").onchange = async ({ target }) => {
  const [file] = target.files;
  if (file) tell("load", new Uint8Array(await file.arrayBuffer()));
  target.value = "";
};
addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
