"""`wholestep audit`: tests of the project's promises, with a record of each."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from wholestep.cli.options import Help, integer_at_least
from wholestep_tools.audit.caching import entries, folders, keys, rivals
from wholestep_tools.audit.campaign import Audit
from wholestep_tools.audit.correctness import (
    accumulation,
    against_jax,
    c_sources,
    card_steps,
    cuda_kernels,
    cuda_steps,
    gradients,
    mutants,
    on_cards,
    on_cuda,
    on_webgpu,
    passes,
    refusals,
    reports,
    steps,
    verify,
    ways,
    webgpu_steps,
)
from wholestep_tools.audit.endurance import allocations, calls, fork, memory, shapes, sharing, stream
from wholestep_tools.audit.foreign import damaged_models, exported_samples, onnx_models, onnx_nodes, parity
from wholestep_tools.audit.guards import alarms, origins, scales
from wholestep_tools.audit.hostile import export_files, exported_names, files, headers, markup, names, paths, texts
from wholestep_tools.audit.numerics import drift, host_numbers, modes, precisions, sums
from wholestep_tools.audit.record import check_file, told
from wholestep_tools.audit.resumption import bits, damage, kill, pages, resume, twins
from wholestep_tools.audit.workers import losses, workers

ROOMS = (
    (
        steps,
        against_jax,
        gradients,
        refusals,
        reports,
        ways,
        passes,
        accumulation,
        mutants,
        verify,
        c_sources,
        on_cards,
        on_webgpu,
        card_steps,
        webgpu_steps,
        on_cuda,
        cuda_steps,
        cuda_kernels,
    ),
    (sums, modes, precisions, drift, host_numbers),
    (bits, twins, resume, kill, damage, pages),
    (files, headers, texts, paths, names, exported_names, export_files, markup),
    (entries, rivals, keys, folders),
    (calls, shapes, sharing, fork, allocations, memory, stream),
    (origins, scales, alarms),
    (exported_samples, parity, onnx_nodes, onnx_models, damaged_models),
    (workers, losses),
)
AUDITS = {module.AUDIT.name: module.AUDIT for room in ROOMS for module in room}


def add(kinds: Any) -> None:
    """Add the audits to those that the library has."""
    for audit in AUDITS.values():
        job = kinds.add_parser(audit.name, help=audit.about, description=f"{audit.about[0].upper()}{audit.about[1:]}.")
        job.formatter_class = Help
        job.add_argument("--count", type=integer_at_least(1), default=audit.often, metavar="N", help="how often")
        job.add_argument(
            "--seed", type=integer_at_least(0), default=0, metavar="N", help="where all random choices come from"
        )
        job.add_argument("--record", type=Path, metavar="FILE", help="write what was found here, as JSON")
        if audit.shared:
            job.add_argument("--jobs", type=integer_at_least(1), metavar="N", help="how many processes share the work")
        job.set_defaults(run=lambda options, audit=audit: command(audit, options))


def command(audit: Audit, options: argparse.Namespace) -> int:
    """Run the command as it was given."""
    check_file(options.record)
    shared = [options.jobs] if audit.shared and options.jobs else []
    found = audit.run(options.count, options.seed, *shared)
    return told({**found, "count": options.count}, options.record, sys.stdout)
