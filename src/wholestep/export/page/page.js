// The page: buttons, the curve of losses, and files in both directions; the work is done in a worker.
const one = (id) => document.getElementById(id), losses = [];
const text = (id) => one(id).textContent, program = JSON.parse(text("program"));
const worker = new Worker(URL.createObjectURL(new Blob([text("runtime")], { type: "text/javascript" })));
const tell = (name, value) => worker.postMessage({ name, value });
const say = (words, bad = false) => { one("status").textContent = words; one("status").className = bad ? "bad" : ""; };
let skipped = 0, running = false;
function state(on) { running = on; one("start").textContent = on ? "Pause" : "Start"; one("start").setAttribute("aria-pressed", String(on)); }
function draw() {
  const canvas = one("curve"), box = canvas.getBoundingClientRect(), scale = devicePixelRatio || 1, style = getComputedStyle(document.body);
  canvas.width = box.width * scale; canvas.height = box.height * scale;
  const pen = canvas.getContext("2d"), shown = losses.slice(-20000).filter(Number.isFinite);
  pen.scale(scale, scale);
  if (shown.length < 2) return;
  const low = shown.reduce((a, b) => Math.min(a, b)), high = shown.reduce((a, b) => Math.max(a, b)), place = (x) => 8 + (box.height - 24) * (1 - (x - low) / (high - low || 1));
  pen.fillStyle = style.color; pen.font = "12px system-ui";
  pen.fillText(high.toPrecision(4), 4, 14); pen.fillText(low.toPrecision(4), 4, box.height - 4);
  // Each loss is a thin line, and a mean that forgets after a fiftieth of them, ten at least, a thick one.
  const every = Math.max(1, Math.floor(shown.length / box.width)), window = Math.max(10, shown.length / 50);
  let mean = 0;
  const smooth = shown.map((x, i) => (mean += (x - mean) * Math.max(1 / (i + 1), 1 / window)));
  pen.strokeStyle = style.getPropertyValue("--mark");
  for (const [line, width, alpha] of [[shown, 1, 0.4], [smooth, 2.5, 1]]) {
    const points = line.filter((_, i) => i % every === 0 || i === line.length - 1);
    pen.lineWidth = width; pen.globalAlpha = alpha; pen.beginPath();
    points.forEach((x, i) => pen.lineTo(64 + ((box.width - 72) * i) / (points.length - 1), place(x)));
    pen.stroke();
  }
  one("smooth").textContent = mean.toPrecision(5);
}
const HEARD = {
  ready: (name) => { say(`Ready on ${name || "an adapter without a name"}.`); for (const b of document.querySelectorAll("button, input")) b.disabled = false; if (location.hash === "#start") one("start").click(); },
  losses: ({ losses: found, finite, captures, rate }) => {
    losses.push(...found); skipped += finite.filter((x) => !x).length;
    one("steps").textContent = losses.length; one("loss").textContent = losses.at(-1).toPrecision(9); one("rate").textContent = rate.toFixed(0); one("skipped").textContent = skipped;
    document.title = `${losses.length} steps, loss ${losses.at(-1).toPrecision(4)}`;
    draw();
    if (Object.keys(captures).length) HEARD.captured?.(captures);
    HEARD.changed?.();
  },
  resumed: ({ losses: found, steps }) => {
    losses.push(...found); one("steps").textContent = losses.length;
    if (losses.length) one("loss").textContent = losses.at(-1).toPrecision(9);
    draw(); say(`Goes on from step ${steps}, which this browser has kept. Reset begins anew.`); HEARD.changed?.();
  },
  unkept: (reason) => say(`This browser keeps no copy of the state (${reason}): download checkpoints.`),
  hyper: (values) => {
    for (const [name, value] of Object.entries(values)) {
      let field = one(`hyper-${name}`);
      if (!field) {
        field = Object.assign(document.createElement("input"), { id: `hyper-${name}`, type: "number", step: "any", onchange: () => { if (Number.isFinite(field.valueAsNumber)) tell("set", { [name]: field.valueAsNumber }); else field.value = field.defaultValue; } });
        const label = document.createElement("label");
        label.append(`${name} `, field);
        one("hyper").append(label);
      }
      field.value = field.defaultValue = String(value);
    }
    one("hyper").parentNode.hidden = !one("hyper").childElementCount;
  },
  paused: () => say("Paused."), reset: () => { losses.length = skipped = 0; one("steps").textContent = "0"; one("loss").textContent = one("smooth").textContent = "–"; draw(); say("As it was exported."); HEARD.changed?.(); },
  saved: (file) => { const link = document.createElement("a"); link.href = URL.createObjectURL(new Blob([file])); link.download = "step.safetensors"; link.click(); say("Saved: step.load takes the file."); },
  loaded: () => { say("Loaded: training goes on from the checkpoint."); HEARD.changed?.(); }, failed: (words) => { state(false); say(words, true); },
};
worker.onmessage = ({ data: { name, value } }) => HEARD[name](value);
one("start").onclick = () => { state(!running); tell(running ? "start" : "pause"); if (running) say("Training."); };
one("once").onclick = () => tell("run", 1);
one("reset").onclick = () => tell("reset");
one("save").onclick = () => tell("save");
one("load").onchange = async (event) => { const [file] = event.target.files; if (file) tell("load", new Uint8Array(await file.arrayBuffer())); event.target.value = ""; };
addEventListener("resize", draw);
