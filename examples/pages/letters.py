"""A language model of letters that learns the names of the chemical elements, and says which letter comes next."""

import numpy as np

import wholestep as ws
from wholestep import nn, optim

NAMES = """hydrogen helium lithium beryllium boron carbon nitrogen oxygen fluorine neon sodium magnesium aluminium
silicon phosphorus sulfur chlorine argon potassium calcium scandium titanium vanadium chromium manganese iron cobalt
nickel copper zinc gallium germanium arsenic selenium bromine krypton rubidium strontium yttrium zirconium niobium
molybdenum technetium ruthenium rhodium palladium silver cadmium indium tin antimony tellurium iodine xenon caesium
barium lanthanum cerium praseodymium neodymium promethium samarium europium gadolinium terbium dysprosium holmium erbium
thulium ytterbium lutetium hafnium tantalum tungsten rhenium osmium iridium platinum gold mercury thallium lead bismuth
polonium astatine radon francium radium actinium thorium protactinium uranium neptunium plutonium americium curium
berkelium californium einsteinium fermium mendelevium nobelium lawrencium""".split()
BEFORE, WIDTH = 6, 24


def numbers(text):
    """The letters of a text: 1 to 26, and 0 for its ends."""
    return [0 if letter == " " else ord(letter) - 96 for letter in text]


class Speller(nn.Module):
    """The letters before, side by side, through two layers."""

    def __init__(self, *, key):
        keys = ws.random.split(key, 3)
        self.letters = nn.Embedding(27, WIDTH, key=keys[0])
        self.hidden = nn.Linear(BEFORE * WIDTH, 128, key=keys[1])
        self.head = nn.Linear(128, 27, key=keys[2])

    def __call__(self, before):
        return self.head(np.tanh(self.hidden(self.letters(before).reshape(len(before), -1))))


def loss(model, batch):
    return nn.cross_entropy(model(batch["before"]), batch["letter"])


def next_letter(model, before):
    """The probability of the end of the name, and of each letter, behind the last six: 0 for places before the name."""
    return nn.softmax(model(before.reshape(1, BEFORE)))[0]


padded = [" " * BEFORE + name + " " for name in NAMES]
pairs = [(text[i : i + BEFORE], text[i + BEFORE]) for text in padded for i in range(len(text) - BEFORE)]
data = {
    "before": np.array([numbers(before) for before, _ in pairs], np.int32),
    "letter": np.array([numbers(letter)[0] for _, letter in pairs], np.int32),
}
batch = {name: rows[:64] for name, rows in data.items()}

step = ws.compile(loss, Speller(key=ws.random.key(0)), optimizer=optim.adamw(2e-3), batch=batch)
attach = {"next_letter": step.attach(next_letter, batch=ws.ShapeDtype((BEFORE,), np.int32))}
