"""`wholestep audit precision`: training in half precision comes to the loss of training in single precision."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from wholestep.cli.train.text import TextRun
from wholestep.train.data.text_corpus import Corpus, corpus
from wholestep.train.loop.fit import fit
from wholestep_tools.audit.campaign import Audit
from wholestep_tools.audit.record import record

CLAIM = "In bfloat16 and float16 the GPT of `wholestep train text` comes to the loss of float32, within 2%"
WITHIN = 0.02
HALVES = ("bfloat16", "float16")
LEARNED = 0.75
"""The part of the loss at the beginning that must not be left at the end, or there is nothing to compare."""


def audit(count: int, seed: int, source: Corpus | None = None, width: int = 128, layers: int = 4) -> dict[str, Any]:
    """Train for so many steps in each precision, on the same batches from the same weights, and compare the losses."""
    source = corpus() if source is None else source
    options = {"seed": seed, "batch_size": 4, "width": width, "layers": layers, "steps": count}
    measured = {name: trained(source, count, {**options, "precision": name}) for name in ("float32", *HALVES)}
    checks = {"steps in each precision": count, "characters held out": len(source.test)}
    return record("precision", CLAIM, checks, wrong(measured), seed=seed, measured=measured)


def trained(source: Corpus, count: int, options: dict[str, Any]) -> dict[str, float]:
    """Bits per character of one training: in its first tenth, in its last tenth, and on held-out text."""
    run = TextRun(source, argparse.Namespace(**options))
    run.step.set(steps=max(count, 2))
    history = fit(run.step, run.loader, steps=count, progress=None)
    part = -(-count // 10)
    return {
        "first tenth": float(np.mean(history.losses[:part])),
        "last tenth": float(np.mean(history.losses[-part:])),
        "held out": run.bits(),
        "steps left out": run.step.skipped,
    }


def wrong(measured: dict[str, dict[str, float]]) -> list[str]:
    """The precisions too far from single precision, and single precision itself where it has learned nothing."""
    single = measured["float32"]
    found = []
    if not single["last tenth"] < LEARNED * single["first tenth"]:
        found.append(f"float32: the loss went from {single['first tenth']:.3f} to {single['last tenth']:.3f}")
    for name in HALVES:
        for what in ("last tenth", "held out"):
            off = measured[name][what] / single[what] - 1
            if not abs(off) <= WITHIN:
                found.append(f"{name}: {what} {measured[name][what]:.3f}, {off:+.1%} beside float32")
    return found


AUDIT = Audit(
    "precision",
    audit,
    1000,
    "train a GPT for so many steps in each precision, and compare the losses",
    """\
The GPT of `wholestep train text`, at its full size, is trained in each precision for the same number of steps, on
the same batches from the same weights, by a schedule of that length. Losses are in bits per character: the mean of
the first and of the last tenth of the steps, and that of files which were held out. float16 has a dynamic loss
scale, which leaves out steps until it fits.""",
)
