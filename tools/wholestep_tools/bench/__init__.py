"""`wholestep bench`: the commands that compare Wholestep with JAX and PyTorch, in turns, with the same numbers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wholestep.cli.options import Help, integer_at_least, positive_number
from wholestep.errors import CommandError
from wholestep_tools.bench import (
    calls,
    decode,
    depth,
    device,
    device_peers,
    exports,
    first_trace,
    gallery,
    instruction_sets,
    links,
    machine,
    memory,
    pages,
    processes,
    products,
    spec,
    workloads,
)
from wholestep_tools.bench.deep import LAYERS, MODES
from wholestep_tools.bench.deep_programs import PROGRAMS
from wholestep_tools.bench.depth_worker import JAX, UNROLLED
from wholestep_tools.bench.first_traced import PROGRAMS as FIRST_TRACED
from wholestep_tools.bench.page_models import MODELS
from wholestep_tools.bench.peers import PEERS, USUAL
from wholestep_tools.bench.real.catalog import REAL
from wholestep_tools.bench.runner import Options

ABOUT = "Time nine workloads in Wholestep and in whichever of JAX and PyTorch is installed, in turns."


def add(commands: Any) -> None:
    """Add the command to the command line."""
    job = commands.add_parser("bench", help="measure speed beside JAX and PyTorch", description=ABOUT)
    job.formatter_class = Help
    add_options(job, spec.SMALL, rounds=5)
    others = job.add_subparsers(title="other comparisons", metavar="NAME")
    about = "Time models of real size in Wholestep and in whichever of JAX and PyTorch is installed, in turns."
    large = others.add_parser("models", help="measure models of real size", description=about)
    large.formatter_class = Help
    add_options(large, tuple(REAL), rounds=3)
    add_products(others)
    add_memory(others)
    add_calls(others)
    add_decode(others)
    add_trace(others)
    add_depth(others)
    add_processes(others)
    add_links(others)
    add_gallery(others)
    add_device(others)
    add_exports(others)
    add_pages(others)


def add_options(job: argparse.ArgumentParser, workloads: Sequence[str], rounds: int) -> None:
    """Add the options of a comparison in speed: the default workloads, and the default number of rounds."""
    known = ", ".join(PEERS)
    job.add_argument(
        "--peers", metavar="NAMES", help=f"of {known}; unless given, {', '.join(USUAL)} as far as installed"
    )
    job.add_argument("--workloads", default=",".join(workloads), metavar="NAMES", help="what to run")
    job.add_argument(
        "--rounds", type=integer_at_least(1), default=rounds, metavar="N", help="how often each peer has its turn"
    )
    job.add_argument("--budget", type=positive_number, default=1.5, metavar="S", help="seconds of a turn")
    job.add_argument(
        "--threads", type=integer_at_least(1), default=machine.processors(), metavar="N", help="threads of each peer"
    )
    job.add_argument(
        "--isa", choices=sorted(instruction_sets.LIMITS), default="", help="hold all peers to this instruction set"
    )
    job.add_argument(
        "--json", type=Path, metavar="FILE", help="also write everything here, beside other workloads that the file has"
    )
    job.set_defaults(run=command)


def add_products(commands: Any) -> None:
    """Add `wholestep bench products`."""
    about = "Time products of matrices in Wholestep, NumPy, PyTorch and JAX, all in one process, in turns."
    job = commands.add_parser("products", help="measure products of matrices", description=about)
    job.formatter_class = Help
    job.add_argument("--only", default="*", metavar="PATTERNS", help='names such as "512" or "* NT float64"')
    job.add_argument("--rounds", type=integer_at_least(1), default=5, metavar="N", help="how often each has its turn")
    job.add_argument("--budget", type=positive_number, default=0.05, metavar="S", help="seconds of a turn")
    job.add_argument(
        "--threads", type=integer_at_least(1), default=machine.processors(), metavar="N", help="threads of each library"
    )
    job.add_argument("--json", type=Path, metavar="FILE", help="also write everything here")
    job.set_defaults(run=products_command)


def products_command(options: argparse.Namespace) -> int:
    """Run `wholestep bench products` as it was given."""
    what = products.chosen(options.only)
    how = (options.rounds, options.budget, options.threads, options.json)
    return products.bench(what, products.installed(), *how, sys.stdout)


def add_memory(commands: Any) -> None:
    """Add `wholestep bench memory`."""
    about = "Measure memory and time of a deep GPT, as it is and where memory is saved, in all libraries installed."
    job = commands.add_parser("memory", help="compare ways to save memory", description=about)
    job.formatter_class = Help
    job.add_argument("--peers", metavar="NAMES", help="of wholestep, jax, torch; unless given, those installed")
    job.add_argument("--layers", type=integer_at_least(1), default=LAYERS, metavar="N", help="layers of the model")
    job.add_argument("--rounds", type=integer_at_least(1), default=5, metavar="N", help="how often each has its turn")
    job.add_argument(
        "--threads", type=integer_at_least(1), default=machine.processors(), metavar="N", help="threads of each library"
    )
    job.add_argument("--json", type=Path, metavar="FILE", help="also write everything here")
    job.set_defaults(run=memory_command)


def memory_command(options: argparse.Namespace) -> int:
    """Run `wholestep bench memory` as it was given."""
    peers = [peer for peer in workloads.chosen(options.peers) if peer in MODES]
    quiet = Options().quiet
    return memory.bench(peers, options.layers, options.rounds, options.threads, quiet, options.json, sys.stdout)


def add_calls(commands: Any) -> None:
    """Add `wholestep bench calls`."""
    about = "Time calls that compute next to nothing beside JAX and autograd, in turns, and imports beside NumPy's."
    job = commands.add_parser("calls", help="measure what a call costs", description=about)
    job.formatter_class = Help
    job.add_argument("--rounds", type=integer_at_least(1), default=9, metavar="N", help="how often each has its turn")
    job.add_argument("--budget", type=positive_number, default=0.05, metavar="S", help="seconds of a turn")
    job.add_argument("--json", type=Path, metavar="FILE", help="also write everything here")
    job.set_defaults(run=calls_command)


def calls_command(options: argparse.Namespace) -> int:
    """Run `wholestep bench calls` as it was given."""
    return calls.bench(calls.installed(), options.rounds, options.budget, options.json, sys.stdout)


def add_decode(commands: Any) -> None:
    """Add `wholestep bench decode`."""
    about = "Time the text that the GPT of `wholestep train text` writes beside PyTorch with its cache, in turns."
    job = commands.add_parser("decode", help="measure tokens a second", description=about)
    job.formatter_class = Help
    job.add_argument("--peers", metavar="NAMES", help="of torch, torch.compile; unless given, torch if installed")
    job.add_argument("--only", default="*", metavar="PATTERNS", help='names such as "highest score"')
    job.add_argument("--count", type=integer_at_least(2), default=400, metavar="N", help="tokens after the prompt")
    job.add_argument("--rounds", type=integer_at_least(1), default=9, metavar="N", help="how often each has its turn")
    job.add_argument(
        "--threads", type=integer_at_least(1), default=machine.processors(), metavar="N", help="threads of each library"
    )
    job.add_argument("--json", type=Path, metavar="FILE", help="also write everything here")
    job.set_defaults(run=decode_command)


def decode_command(options: argparse.Namespace) -> int:
    """Run `wholestep bench decode` as it was given."""
    kinds, peers = decode.kinds_of(options.only), decode.chosen(options.peers)
    how = (options.count, options.rounds, options.threads, options.json)
    return decode.bench(kinds, peers, *how, sys.stdout)


def add_trace(commands: Any) -> None:
    """Add `wholestep bench trace`."""
    about = "Time first traces of functions, rewritten and as they stand, each in a process of its own, in turns."
    job = commands.add_parser("trace", help="measure what rewriting costs at a first trace", description=about)
    job.formatter_class = Help
    job.add_argument("--only", metavar="NAMES", help=f"of {', '.join(FIRST_TRACED)}")
    job.add_argument("--rounds", type=integer_at_least(1), default=9, metavar="N", help="how often each has its turn")
    job.add_argument("--kept", action="store_true", help="read the copies that an earlier process kept on disk")
    job.add_argument("--json", type=Path, metavar="FILE", help="also write everything here")
    job.set_defaults(run=trace_command)


def trace_command(options: argparse.Namespace) -> int:
    """Run `wholestep bench trace` as it was given."""
    what = first_trace.chosen(options.only)
    return first_trace.bench(what, options.rounds, options.kept, options.json, sys.stdout)


def add_depth(commands: Any) -> None:
    """Add `wholestep bench depth`."""
    about = (
        "Measure what it takes to compile deep models and Python loops, by their depth, rolled, unrolled, and in JAX."
    )
    job = commands.add_parser("depth", help="measure compile times by depth", description=about)
    job.formatter_class = Help
    job.add_argument("--only", default="*", metavar="PATTERNS", help=f"of {', '.join(PROGRAMS)}")
    job.add_argument("--depths", default="", metavar="NUMBERS", help="in the place of each program's own")
    job.add_argument("--unrolled", type=integer_at_least(0), metavar="N", help="deepest with roll=False")
    job.add_argument("--jax", type=integer_at_least(0), metavar="N", help="deepest in JAX")
    job.add_argument("--rounds", type=integer_at_least(1), default=2, metavar="N", help="how often each has its turn")
    job.add_argument("--threads", type=integer_at_least(1), default=1, metavar="N", help="threads of each library")
    job.add_argument("--json", type=Path, metavar="FILE", help="also write everything here")
    job.set_defaults(run=depth_command)


def depth_command(options: argparse.Namespace) -> int:
    """Run `wholestep bench depth` as it was given."""
    depths = [whole_depth(text) for text in options.depths.split(",") if text]
    most = {UNROLLED: options.unrolled, JAX: options.jax}
    how = (options.rounds, options.threads, options.json)
    return depth.bench(depth.chosen(options.only), depths, most, *how, sys.stdout)


def add_processes(commands: Any) -> None:
    """Add `wholestep bench processes`."""
    about = "Time a step in two processes of MPI with a thread each beside one process with two threads, in turns."
    job = commands.add_parser("processes", help="measure what several processes cost", description=about)
    job.formatter_class = Help
    job.add_argument("--workloads", default=",".join(processes.STEPS), metavar="NAMES", help="what to run")
    job.add_argument("--rounds", type=integer_at_least(1), default=5, metavar="N", help="how often each has its turn")
    job.add_argument("--json", type=Path, metavar="FILE", help="also write everything here")
    job.set_defaults(run=processes_command)


def processes_command(options: argparse.Namespace) -> int:
    """Run `wholestep bench processes` as it was given."""
    return processes.bench(spec.named(options.workloads, processes.STEPS), options.rounds, options.json, sys.stdout)


def add_links(commands: Any) -> None:
    """Add `wholestep bench links`."""
    about = (
        "Time a step in 1 to 8 processes of PyTorch's gloo, each in a network namespace of Linux behind a link of "
        "20 MB/s, beside its prediction. It takes root."
    )
    job = commands.add_parser("links", help="compare processes over a network with their prediction", description=about)
    job.formatter_class = Help
    job.add_argument("--json", type=Path, metavar="FILE", help="also write everything here")
    job.set_defaults(run=lambda options: links.bench(options.json, sys.stdout))


def add_gallery(commands: Any) -> None:
    """Add `wholestep bench gallery`."""
    about = "Time one step of each example of the gallery beside the same by hand in JAX, in turns."
    job = commands.add_parser("gallery", help="measure the examples of the gallery", description=about)
    job.formatter_class = Help
    job.add_argument("--only", default="*", metavar="PATTERNS", help='names such as "vae" or "p*"')
    job.add_argument("--rounds", type=integer_at_least(1), default=9, metavar="N", help="how often each has its turn")
    job.add_argument("--budget", type=positive_number, default=0.05, metavar="S", help="seconds of a turn")
    job.add_argument("--threads", type=integer_at_least(1), default=1, metavar="N", help="threads of each library")
    job.add_argument("--json", type=Path, metavar="FILE", help="also write everything here")
    job.set_defaults(run=gallery_command)


def gallery_command(options: argparse.Namespace) -> int:
    """Run `wholestep bench gallery` as it was given."""
    how = (options.rounds, options.budget, options.threads, options.json)
    return gallery.bench(gallery.chosen(options.only), *how, sys.stdout)


def add_pages(commands: Any) -> None:
    """Add `wholestep bench pages`."""
    about = "Time steps of pages beside tensorgrad's, in one Chromium, in turns. npm fetches tensorgrad."
    job = commands.add_parser("pages", help="measure pages beside tensorgrad", description=about)
    job.formatter_class = Help
    job.add_argument("--models", default=",".join(MODELS), metavar="NAMES", help="what to run")
    job.add_argument("--package", default=pages.PACKAGE, metavar="NAME", help="what npm installs; a folder will do")
    job.add_argument("--rounds", type=integer_at_least(1), default=9, metavar="N", help="how often each has its turn")
    job.add_argument("--json", type=Path, metavar="FILE", help="also write everything here, beside other models")
    job.set_defaults(run=pages_command)


def pages_command(options: argparse.Namespace) -> int:
    """Run `wholestep bench pages` as it was given."""
    return pages.bench(pages.chosen(options.models), options.package, options.rounds, options.json, sys.stdout)


def add_device(commands: Any) -> None:
    """Add `wholestep bench device`."""
    about = (
        "Compare losses of training steps on a device with the CPU's, and time the steps of both, in turns; "
        "with --peers, steps on the device beside those of other libraries there."
    )
    job = commands.add_parser("device", help="compare a device with the CPU", description=about)
    job.formatter_class = Help
    job.add_argument("device", help='such as "cuda", "cuda:1", "opencl" or "webgpu"')
    job.add_argument("--workloads", default=",".join(device.STEPS), metavar="NAMES", help="what to run")
    job.add_argument("--peers", metavar="NAMES", help="of jax, torch.compile: time these on the device, too")
    job.add_argument("--kernels", action="store_true", help="also print the launches of a step that take longest")
    job.add_argument(
        "--rounds",
        type=integer_at_least(1),
        metavar="N",
        help="steps that are timed, 100 unless given; with --peers how often each has its turn, 7 unless given",
    )
    job.add_argument("--json", type=Path, metavar="FILE", help="also write everything here")
    job.set_defaults(run=device_command)


def device_command(options: argparse.Namespace) -> int:
    """Run `wholestep bench device` as it was given."""
    steps = spec.named(options.workloads, device.STEPS)
    if options.peers is None:
        code = device.bench(options.device, steps, options.rounds or 100, options.json, sys.stdout)
    else:
        peers = device_peers.chosen(options.peers, options.device)
        code = device_peers.bench(options.device, steps, peers, options.rounds or 7, options.json, sys.stdout)
    for name in steps if options.kernels else ():
        print(f"\n{device.slowest_launches(name, options.device)}", flush=True)
    return code


def add_exports(commands: Any) -> None:
    """Add `wholestep bench exports`."""
    about = "Time steps beside their exports, and beside JAX and PyTorch by hand, on one thread, in turns."
    job = commands.add_parser("exports", help="measure exported steps", description=about)
    job.formatter_class = Help
    job.add_argument("--workloads", default=",".join(exports.STEPS), metavar="NAMES", help="what to run")
    job.add_argument("--rounds", type=integer_at_least(1), default=15, metavar="N", help="how often each has its turn")
    job.add_argument("--json", type=Path, metavar="FILE", help="also write everything here")
    job.set_defaults(run=exports_command)


def exports_command(options: argparse.Namespace) -> int:
    """Run `wholestep bench exports` as it was given."""
    return exports.bench(spec.named(options.workloads, exports.STEPS), options.rounds, options.json, sys.stdout)


def whole_depth(text: str) -> int:
    """A depth from its text; raises CommandError for a text that is no depth.

    >>> whole_depth("12")
    12
    """
    if not text.strip().isdecimal() or int(text) < 1:
        raise CommandError(f"{text.strip()!r} is no depth", hint="for example --depths 12,24")
    return int(text)


def command(options: argparse.Namespace) -> int:
    """Run the command as it was given."""
    how = Options(options.rounds, options.budget, options.threads, isa=options.isa)
    return workloads.bench(options.peers, options.workloads, how, options.json, sys.stdout)
