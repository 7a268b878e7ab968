"""C programs around exported steps, built by the system's compiler and run: a state and a batch in, a state out."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wholestep import tree
from wholestep_tools.drawn.c_library import COMPILER, STRICT

DRIVER = """\
#include "model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static unsigned char memory[MODEL_BYTES], file[MODEL_STATE_BYTES + (1 << 24)];

static size_t fetch(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) exit(3);
    size_t n = fread(file, 1, sizeof file, f);
    fclose(f);
    return n;
}

int main(int count, char **words) {
    if (count != 5) return 2;
    model *m = model_init(memory);
    int code = model_load(m, file, fetch(words[1]));
    if (code) return printf("load %d\\n", code), 1;
    fetch(words[2]);
@BATCH@
    clock_t best = (clock_t)1 << 30;
    for (int i = 0; i < atoi(words[4]); i++) {
        clock_t before = clock();
        code = model_step(m);
        clock_t took = clock() - before;
        if (took < best) best = took;
        if (code) {
            printf("step %d: %s\\n", code, model_failure(code));
            break;
        }
        if (i < 20) printf("%.17g\\n", (double)*model_loss(m));
    }
    fprintf(stderr, "%.9f\\n", (double)best / CLOCKS_PER_SEC);
@AFTER@
    if (!model_save(m, file, sizeof file)) return 4;
    FILE *f = fopen(words[3], "wb");
    if (!f || fwrite(file, 1, MODEL_STATE_BYTES, f) != MODEL_STATE_BYTES) return 5;
    return fclose(f) || code;
}
"""


def model_arrays(folder: Path, batch: Any) -> tuple[list[str], bytes]:
    """The statements that copy the arrays of a batch from `file` into the model of a folder, and their bytes."""
    arrays = [np.ascontiguousarray(x) for x in tree.leaves(batch)]
    reads = (folder / "model.h").read_text(encoding="utf-8").split("What a step reads")[1].split("/* What a step")[0]
    lines, at = [], 0
    for name, x in zip(re.findall(r"\*(\w+)\(model \*m\)", reads), arrays, strict=True):
        lines.append(f"    memcpy({name}(m), file + {at}, {x.nbytes});")
        at += x.nbytes
    return lines, b"".join([x.tobytes() for x in arrays])


class CProgram:
    """A program that trains the export in a folder on one batch; `after` is C code that runs before the state is saved.

    Another `compiler` than the system's makes a program for another processor, which `runner` runs.
    """

    def __init__(
        self,
        folder: Path,
        batch: Any,
        sources: Sequence[str],
        after: str = "",
        *flags: str,
        compiler: Sequence[str] = (str(COMPILER),),
        runner: Sequence[str] = (),
    ) -> None:
        self.folder, self.runner, self.seconds = folder, runner, 0.0
        lines, given = model_arrays(folder, batch)
        (folder / "batch.bin").write_bytes(given)
        text = DRIVER.replace("@BATCH@", "\n".join(lines)).replace("@AFTER@", after)
        (folder / "main.c").write_text(text, encoding="utf-8")
        parts = [str(folder / name) for name in ("main.c", *sources)]
        options = [*(flags or ("-O0",)), *STRICT, f"-I{folder}"]
        subprocess.run([*compiler, *options, *parts, "-o", str(folder / "train"), "-lm"], check=True)

    def train(self, state: Path, new: Path, steps: int) -> list[float]:
        """Train so many steps from one file of a state to another; the first losses."""
        given = [
            *self.runner,
            str(self.folder / "train"),
            str(state),
            str(self.folder / "batch.bin"),
            str(new),
            str(steps),
        ]
        done = subprocess.run(given, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
        self.seconds = float(done.stderr.split()[0])
        return [float(line) for line in done.stdout.split()]
