// Messages of the page: start, pause, run, reset, save, load and calls of functions, one after another.
let training, going = false;
const answer = (name, value) => postMessage({ name, value });
async function steps(n) {
  const before = performance.now(), found = await training.run(n), ms = performance.now() - before;
  if (found.losses.length) answer("losses", { ...found, rate: (1000 * found.losses.length) / ms });
  if (found.failed) throw new RangeError(found.failed);
}
// The results of a function for each of some rows of inputs.
async function results({ name, rows }) {
  const found = [];
  for (const arrays of rows) found.push(await training.call(name, arrays));
  return found;
}
const CALLS = {
  create: async (page) => { training = await Training.create(page); answer("ready", training.name); },
  start: () => { if (!going) { going = true; again(); } },
  pause: () => { going = false; answer("paused"); },
  run: (n) => steps(n),
  reset: async () => { await training.reset(); answer("reset"); },
  save: async () => answer("saved", await training.save()),
  load: async (file) => { await training.load(file); answer("loaded"); },
  call: (wanted) => results(wanted).then((found) => answer("called", { name: wanted.name, found }), (error) => answer("called", { name: wanted.name, failed: error.message })),
};
let turn = Promise.resolve();
function again() { queue(async () => { if (going) { await steps(training.pace); setTimeout(again); } }); }
function queue(work) { turn = turn.then(work).catch((error) => { going = false; answer("failed", error.message); }); }
onmessage = ({ data: { name, value } }) => queue(() => CALLS[name](value));
