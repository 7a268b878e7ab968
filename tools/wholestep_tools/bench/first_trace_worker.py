"""The process in which one function is traced for the first time: it loads NumPy, Wholestep and the user's file."""

from __future__ import annotations

import gc
import importlib.util
import pickle
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import wholestep as ws

PROGRAM, OTHER, ARGUMENTS = "program_of_the_user", "other_of_the_user", "arguments.pickle"
"""The files of a folder: the function to trace, another one that is called `other`, and the arguments of the first."""


def from_folder(folder: Path, name: str) -> Any:
    """A module of the user's, imported from its file in a folder."""
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def first_trace(folder: Path, function: str, after: bool, rewrite: bool) -> float:
    """The seconds of the processor that the first trace of a function takes, of this process or `after` another's."""
    f = getattr(from_folder(folder, PROGRAM), function)
    other = from_folder(folder, OTHER).other
    args = pickle.loads((folder / ARGUMENTS).read_bytes())
    for _ in range(3 * after):
        ws.trace(other, rewrite=True)(np.ones((3, 4)))
    traced = ws.trace(f, rewrite=rewrite)
    gc.collect()
    before = time.thread_time()
    traced(*args)
    return time.thread_time() - before


if __name__ == "__main__":
    print(first_trace(Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "1", sys.argv[4] == "1"))
