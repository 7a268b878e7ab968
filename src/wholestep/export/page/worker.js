// Messages of the page: start, pause, run, reset, save, load, set and calls of functions, one after another.
const EVERY = 10000, LAST = 5000;
let training, kept, going = false, history = [], saved = 0, unkept = false;
const answer = (name, value) => postMessage({ name, value });
const hyper = () => answer("hyper", training.hyper());
async function steps(n) {
  const before = performance.now(), found = await training.run(n), ms = performance.now() - before;
  history = history.concat(found.losses).slice(-LAST);
  if (!going || performance.now() - saved > EVERY) await keep();
  if (found.losses.length) answer("losses", { ...found, rate: (1000 * found.losses.length) / ms });
  if (found.failed) throw new RangeError(found.failed);
}
// Say once that the browser keeps no state.
function notKept({ message }) {
  if (!unkept) answer("unkept", message);
  unkept = true;
}
async function keep() {
  saved = performance.now();
  try {
    await kept?.keep(await training.save(), { losses: history, position: training.position() });
  } catch (error) {
    notKept(error);
  }
}
async function resumed(page) {
  try {
    kept = await Kept.open(page);
    const facts = await kept.newest((file, { position }) => training.resume(file, position));
    if (!facts) return;
    // JSON has no word for NaN.
    history = facts.losses.map((x) => x ?? NaN);
    answer("resumed", { losses: history, steps: String(training.made) });
  } catch (error) {
    notKept(error);
  }
}
// The results of a function for each of some rows of inputs.
async function results({ name, rows }) {
  const found = [];
  for (const arrays of rows) found.push(await training.call(name, arrays));
  return found;
}
const CALLS = {
  create: async (page) => {
    training = await Training.create(page);
    answer("ready", training.name);
    await resumed(page);
    hyper();
  },
  start: () => { if (!going) { going = true; again(); } },
  pause: async () => { going = false; await keep(); answer("paused"); },
  run: steps,
  reset: async () => {
    await training.reset();
    history = [];
    await kept?.forget();
    answer("reset");
    hyper();
  },
  save: async () => answer("saved", await training.save()),
  load: async (file) => {
    await training.load(file);
    await keep();
    answer("loaded");
    hyper();
  },
  set: async (values) => { await training.set(values); hyper(); },
  call: (wanted) => results(wanted).then(
    (found) => answer("called", { name: wanted.name, found }),
    (error) => answer("called", { name: wanted.name, failed: error.message }),
  ),
};
let turn = Promise.resolve();
function queue(work) {
  turn = turn.then(work).catch((error) => {
    going = false;
    answer("failed", error.message);
  });
}
function again() {
  queue(async () => {
    if (!going) return;
    await steps(training.pace);
    setTimeout(again);
  });
}
onmessage = ({ data: { name, value } }) => queue(() => CALLS[name](value));
