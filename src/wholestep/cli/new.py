"""`wholestep new`: a folder with a model, its configuration, a program that trains it, and tests that pass."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from wholestep.cli.options import Help
from wholestep.errors import CommandError

ABOUT = """Make a folder with a model, a loss and data in model.py, sizes and rates in config.toml, train.py that trains
and goes on where it was stopped, and tests that pass. The data are made up: put your own in their place."""

MODEL = '''"""The model, its loss, and its data."""

import numpy as np

from wholestep import nn


def make_model(config):
    return nn.MLP([config["inputs"], *config["hidden"], config["classes"]], key=config["seed"])


def loss(model, batch):
    return nn.cross_entropy(model(batch["x"]), batch["y"])


def make_data(config, rows, seed):
    """Made-up rows: the class is the nearest of some fixed points. Put your own in their place."""
    points = np.random.default_rng(0).normal(size=(config["classes"], config["inputs"]))
    x = np.random.default_rng(seed).normal(size=(rows, config["inputs"]))
    y = np.argmin(np.sum((x[:, None] - points) ** 2, axis=2), axis=1)
    return {"x": x.astype(np.float32), "y": y}
'''

TRAIN = '''"""`python train.py` trains, and goes on where it was stopped; Ctrl-C keeps the state."""

import tomllib
from pathlib import Path

import numpy as np

import wholestep as ws
from model import loss, make_data, make_model

HERE = Path(__file__).parent


def make_step(config):
    """The compiled step and the loader of its batches."""
    data = make_data(config["model"], config["train"]["rows"], seed=1)
    loader = ws.Loader(data, batch_size=config["train"]["batch_size"], key=config["model"]["seed"])
    optimizer = ws.optim.adamw(ws.optim.cosine(config["train"]["lr"], len(loader) * config["train"]["epochs"]))
    step = ws.compile(loss, make_model(config["model"]), optimizer=optimizer, batch=loader.example)
    return step, loader


def accuracy(step, data):
    return float(np.mean(np.argmax(step.predict(data["x"]), axis=1) == data["y"]))


def main():
    config = tomllib.loads((HERE / "config.toml").read_text())
    step, loader = make_step(config)
    saved = HERE / "run" / "step.safetensors"
    if saved.exists():
        step.load(saved, loader=loader)
    left = config["train"]["epochs"] - loader.epoch
    if left > 0:
        ws.fit(step, loader, epochs=left)
        step.save(saved, loader=loader)
    print(f"accuracy on new rows {accuracy(step, make_data(config['model'], 1000, seed=2)):.3f}")


if __name__ == "__main__":
    main()
'''

TEST = '''"""`python -m pytest` runs these: the step trains, and a saved one goes on to the same bits."""

import tomllib
from pathlib import Path

import numpy as np
from train import make_step

CONFIG = tomllib.loads(Path(__file__).with_name("config.toml").read_text())


def test_training_lowers_the_loss():
    step, loader = make_step(CONFIG)
    losses = [float(step(batch).loss) for batch in loader]
    assert np.mean(losses[-5:]) < 0.8 * losses[0]


def test_a_saved_step_goes_on_to_the_same_bits(tmp_path):
    step, loader = make_step(CONFIG)
    step(loader.example)
    step.save(tmp_path / "step.safetensors")
    again, _ = make_step(CONFIG)
    again.load(tmp_path / "step.safetensors")
    assert step(loader.example).loss == again(loader.example).loss
'''

CONFIG = """[model]
inputs = 8
hidden = [64, 64]
classes = 4
seed = 0

[train]
rows = 4000
batch_size = 64
epochs = 5
lr = 3e-3
"""

README = """# {name}

`python train.py` trains the model of `model.py` with the sizes and rates of `config.toml`; `python -m pytest` tests it.
Both need `pip install "wholestep[train]" pytest`.
"""

FILES = {"model.py": MODEL, "train.py": TRAIN, "test_model.py": TEST, "config.toml": CONFIG, "README.md": README}
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


def add(commands: Any) -> None:
    """The command line of `wholestep new`."""
    job = commands.add_parser("new", help="make a folder with a model, a configuration and tests", description=ABOUT)
    job.formatter_class = Help
    job.add_argument("folder", type=Path, metavar="NAME", help="the folder to make, whose last part is the name")
    job.set_defaults(run=make_project)


def make_project(options: argparse.Namespace) -> int:
    """Write the files; raises CommandError for an invalid name, and for a folder that is not empty."""
    folder: Path = options.folder
    name = folder.resolve().name
    if not NAME.fullmatch(name):
        raise CommandError(f"{name!r} is no name of a project", hint="a letter first, then letters, digits, - and _")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise CommandError(f"{folder} has files in it", hint="name a folder that is not there yet")
        for file, text in FILES.items():
            (folder / file).write_text(text.replace("{name}", name), encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{folder} cannot be written: {error.strerror or error}") from None
    print(f"{folder}: {', '.join(FILES)}\nnext: cd {folder} && python train.py")
    return 0
