"""A small GPT that learns to write Python, from the characters of Python's own standard library.

python examples/text_gpt.py                  # some minutes on two cores; Ctrl-C keeps the state
python examples/text_gpt.py --resume         # go on after Ctrl-C, to the same bits
"""

import argparse
import sysconfig
from pathlib import Path

import numpy as np

import wholestep as ws
from wholestep import nn

CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))
CONTEXT = 128


class Writer(nn.Module):
    def __init__(self, width, layers, key):
        first, last, *keys = ws.random.split(key, layers + 2)
        self.embedding = nn.Embedding(len(CHARACTERS), width, key=first)
        self.blocks = [
            nn.TransformerBlock(width, 4, causal=True, rope=10000.0, norm="rms", bias=False, key=k) for k in keys
        ]
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, len(CHARACTERS), bias=False, key=last)

    def __call__(self, text):
        x = self.embedding(text)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def bits(model, text):
    """The cross-entropy of each next character, in bits."""
    return nn.cross_entropy(model(text[:, :-1]), text[:, 1:]) / np.log(2)


def pieces(paths):
    """The text of some files as rows of 129 numbers: 128 characters, and the one after each of them."""
    table = np.full(128, CHARACTERS.index("?"), np.uint8)
    table[[ord(c) for c in CHARACTERS]] = np.arange(len(CHARACTERS))
    text = "".join(path.read_text(encoding="utf-8", errors="replace").expandtabs() for path in paths)
    numbers = table[np.frombuffer(text.encode("ascii", "replace"), np.uint8)]
    return np.lib.stride_tricks.sliding_window_view(numbers, CONTEXT + 1)[::CONTEXT]


def write(model, beginning, count, key, temperature=0.8):
    """Go on from a text, one character at a time, looking back at the last 128."""
    text = [CHARACTERS.index(c) for c in beginning]
    scores = ws.jit(lambda model, seen, last: model(seen)[0, last])
    for k in ws.random.split(key, count):
        seen = np.zeros((1, CONTEXT), np.uint8)
        seen[0, : len(text[-CONTEXT:])] = text[-CONTEXT:]
        chosen = scores(model, seen, min(len(text), CONTEXT) - 1)
        text.append(int(ws.random.categorical(k, chosen / temperature)))
    return "".join(CHARACTERS[i] for i in text)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--checkpoint", default="text.safetensors")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--curves", default="text.png")
    parser.add_argument("--folder", type=Path, default=Path(sysconfig.get_paths()["stdlib"]))
    options = parser.parse_args(arguments)

    files = sorted(options.folder.glob("*.py"))
    held_out = pieces(files[7::16])
    loader = ws.Loader(pieces([file for file in files if file not in files[7::16]]), batch_size=4, key=0)

    model = Writer(options.width, options.layers, ws.random.key(0))
    schedule = ws.optim.one_cycle(3e-3, options.steps, rise=0.02)
    optimizer = ws.optim.adamw(schedule, b2=0.99, weight_decay=0.1, decay=nn.decay_flags(model))
    step = ws.compile(bits, model, optimizer=optimizer, batch=loader.example)
    history = ws.fit(
        step,
        loader,
        steps=options.steps,
        validation=held_out[::20],
        checkpoint=options.checkpoint,
        resume=options.resume,
    )
    history.plot(options.curves)
    print(write(step.model.eval(), "def ", 200, ws.random.key(1)))
    return history


if __name__ == "__main__":
    main()
