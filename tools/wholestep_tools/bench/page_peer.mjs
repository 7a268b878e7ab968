// The models of `wholestep bench pages` in tensorgrad: each as a loss, the shapes of a batch, and an optimizer.
import {
  Conv2d, LayerNorm, Linear, Module, add, arange, compile, crossEntropy, embedding, matmul, maxPool2d, mean, mergeHeads,
  mul, relu, reshape, softmaxCausal, splitHeads, sub, swapAxes,
} from "tensorgrad";

const WIDTH = 64, HEADS = 4, LETTERS = 12, LENGTH = 8;
class Perceptron extends Module { l1 = new Linear(1, 64); l2 = new Linear(64, 64); l3 = new Linear(64, 1); }
class ImageNetwork extends Module {
  conv1 = new Conv2d(1, 16, 3, { padding: 1 }); conv2 = new Conv2d(16, 32, 3, { padding: 1 });
  fc1 = new Linear(32 * 7 * 7, 64); fc2 = new Linear(64, 10);
}
const square = () => new Linear(WIDTH, WIDTH, { bias: false });
class Attention extends Module { q = square(); k = square(); v = square(); o = square(); }
class Wide extends Module { up = new Linear(WIDTH, 4 * WIDTH); down = new Linear(4 * WIDTH, WIDTH); }
class Layer extends Module { ln1 = new LayerNorm(WIDTH); attn = new Attention(); ln2 = new LayerNorm(WIDTH); mlp = new Wide(); }
class Transformer extends Module {
  constructor() {
    super();
    this.tok_emb = this.param([LETTERS, WIDTH]);
    this.pos_emb = this.param([LENGTH + 1, WIDTH]);
    this.layers = [new Layer(), new Layer(), new Layer()];
    this.lnf = new LayerNorm(WIDTH);
  }
}
const attended = (p, x) => {
  const [q, k, v] = [p.q, p.k, p.v].map((layer) => splitHeads(layer.fwd(x), HEADS));
  const scores = mul(matmul(q, swapAxes(k, -1, -2)), 1 / Math.sqrt(WIDTH / HEADS));
  return p.o.fwd(mergeHeads(matmul(softmaxCausal(scores), v)));
};
const layered = (x, p) => {
  const seen = add(x, attended(p.attn, p.ln1.fwd(x)));
  return add(seen, p.mlp.down.fwd(relu(p.mlp.up.fwd(p.ln2.fwd(seen)))));
};
const clipped = { kind: "adamw", lr: 1e-3, weightDecay: 0.01, clipGradNorm: 1.0 };
const whole = (...shape) => ({ shape, dtype: "i32" });
const SPECS = {
  mlp: {
    model: Perceptron, inputs: { x: [256, 1], y: [256, 1] }, optimizer: { kind: "adam", lr: 0.005 },
    loss: (p, { x, y }) => { const d = sub(p.l3.fwd(relu(p.l2.fwd(relu(p.l1.fwd(x))))), y); return mean(mul(d, d)); },
  },
  cnn: {
    model: ImageNetwork, inputs: { x: [64, 1, 28, 28], y: whole(64) }, optimizer: clipped,
    loss: (p, { x, y }) => {
      const seen = [p.conv1, p.conv2].reduce((h, layer) => maxPool2d(relu(layer.fwd(h)), 2), x);
      return crossEntropy(p.fc2.fwd(relu(p.fc1.fwd(reshape(seen, [64, -1])))), y);
    },
  },
  transformer: {
    model: Transformer, inputs: { tokens: whole(128, LENGTH), targets: whole(128, LENGTH) }, optimizer: clipped,
    loss: (p, { tokens, targets }) => {
      const x = p.layers.reduce(layered, add(embedding(p.tok_emb, tokens), embedding(p.pos_emb, arange(LENGTH))));
      return mean(crossEntropy(matmul(p.lnf.fwd(x), swapAxes(p.tok_emb, -1, -2)), targets, { reduction: "none" }));
    },
  },
};
const KINDS = { float32: Float32Array, int32: Int32Array };
const arrays = (given) => Object.fromEntries(Object.entries(given).map(([name, [kind, x]]) => [name, KINDS[kind].from(x)]));

// The losses of so many steps of a model, one after the other, from parameters at the start.
export async function peer(name, { params, batch }) {
  const { model, ...spec } = SPECS[name], training = await compile({ ...spec, model: new model() });
  await training.uploadParams(arrays(params));
  const run = async (count) => {
    const losses = [];
    for (let i = 0; i < count; i++) losses.push((await training.step(arrays(batch))).loss);
    return losses;
  };
  return { run, launches: training.kernels.length, destroy: () => training.destroy() };
}
