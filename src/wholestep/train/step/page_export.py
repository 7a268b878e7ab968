"""Pages and modules: a step with its data and its state as files that train in a browser, by WebGPU."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.compiler.backends import page_recorder, page_target
from wholestep.errors import ParameterError, ShapeError, UnsupportedError, show
from wholestep.export.native.block import MemoryBlock, PlacedArray, PlacedFunction, laid_out
from wholestep.export.native.page_module import KINDS
from wholestep.export.page.files import (
    INDEX,
    browser_module,
    code_text,
    control_text,
    encoded_bytes,
    encoded_differences,
    package_text,
    page_text,
    typescript_types,
)
from wholestep.export.page.short_texts import compact_wgsl
from wholestep.random.keys import BITS, FOLD, SPLIT
from wholestep.runtime.error_sites import ErrorSite, unpack_site
from wholestep.train.checkpoint.steps import saved_arrays
from wholestep.train.program.engine import Engine
from wholestep.train.program.resident_epochs import check_rows, default_batch_size
from wholestep.train.program.step_function import GRAD_NORM
from wholestep.train.state.batch_signature import BatchSignature
from wholestep.train.state.captured_arrays import check_unchanged
from wholestep.train.step.attached import AttachedProgram
from wholestep.train.step.native_export import attached_plan, state_arrays, state_file, step_plan

KIND = "page"
NO_EXTRAS = ("loss", "finite", f"captures.{GRAD_NORM}")
"""The results of a step that are no further outputs of a page: loss and flag, which it reads after each call, and the
gradient norm, which only the training loop reads."""
ORDER_WORDS = 64
"""The words of an order are a multiple of this: 256 bytes, by which WebGPU aligns what a launch reads."""
WORD_MASK = 0xFFFFFFFF
I64 = np.dtype(np.int64)
"""The dtype of a status, and of the out-of-bounds index that follows it in memory."""


def page_files(
    target: str, engine: Engine, path: Path, data: Any, shuffle: bool, attached: Mapping[str, AttachedProgram]
) -> dict[Path, bytes]:
    """The files of a step that trains in browsers, over rows of data, shuffled or in order.

    Raises UnsupportedError for a step that a page cannot run.
    """
    if data is None and target == "page":
        raise ParameterError("export: a page trains on data of its own", hint="data= takes rows, as step.run does")
    if target == "npm" and not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", path.name):
        raise ParameterError(f"export: {path.name!r} is no name of a package", hint="name the folder in small letters")
    program, title = page_program(engine, data, shuffle, attached), engine.step_function.name
    if target == "page":
        return {path: page_text(f"{title} in a page", program).encode()}
    said = f"A training step of {title}"
    module = path / f"{INDEX}.mjs" if target == "npm" else path
    files = {module: browser_module(said, program), module.with_suffix(".d.mts"): typescript_types(said, program)}
    if target == "npm":
        files[path / "package.json"] = package_text(path.name)
    return {file: text.encode() for file, text in files.items()}


def page_program(engine: Engine, data: Any, shuffle: bool, attached: Mapping[str, AttachedProgram]) -> dict[str, Any]:
    """A step as the runtime in JavaScript takes it; raises UnsupportedError for a step that it cannot run."""
    if engine.count > 1:
        raise UnsupportedError(
            "export to page: the step takes several batches a call", hint="compile it without steps="
        )
    check_unchanged(engine.watches, "export", whole=True)
    functions = [step_plan(engine, KIND, page_target())]
    for name, entry in attached.items():
        check_unchanged(entry.watches, "export", whole=True)
        functions.append(attached_plan(engine, name, entry, KIND, page_target()))
    block = laid_out(state_arrays(engine), functions)
    if block.kept is not None:
        raise UnsupportedError(
            "export to page: the step may fail after it has written its state", hint="check indices before the loss"
        )
    return {**page_rows(engine, data, shuffle), **page_state(engine, block), **page_kernels(block)}


def page_kernels(block: MemoryBlock) -> dict[str, Any]:
    """The kernels of all functions, and the dispatches of each."""
    wide = [x for x in block.state if x.type.size == 1 and x.type.dtype.name in ("float64", "int64")]
    recorder = page_recorder(block.nbytes, [(x.path, dtypes.short(x.type.dtype), x.offset) for x in wide])
    step, *others = [page_function(recorder.record(f.program), f) for f in block.functions]
    wgsl, kernels = recorder.module()
    orders = [order for f in (step, *others) for kind, order, *_ in f["entries"] if kind != "launch"]
    words = in_multiples(max(map(len, orders), default=1), ORDER_WORDS)
    results = {x.path: x for x in block.functions[0].outputs}
    loss, finite = results["loss"], results["finite"]
    if loss.type.dtype.name != "float32":
        raise UnsupportedError(f"export to page: the loss is {loss.type}", hint="return a float32")
    step["outputs"] = [x for x in step["outputs"] if x["path"] not in NO_EXTRAS]
    return {
        "bytes": in_multiples(recorder.top),
        "largest": largest_array(block),
        "filled": [[at, encoded_differences(x)] for at, x in recorder.filled],
        "kernels": kernels,
        "step": step,
        "functions": {f.program.name: entry for f, entry in zip(block.functions[1:], others, strict=True)},
        "given": [[x.path, x.dtype, x.address] for x in recorder.given],
        "loss": loss.offset,
        "finite": finite.offset,
        "orderWords": words,
        "wgsl": compact_wgsl(wgsl + control_text(words)),
    }


def in_multiples(nbytes: int, of: int = 256) -> int:
    """The number of bytes rounded up to a multiple of `of`."""
    return -(-nbytes // of) * of


def largest_array(block: MemoryBlock) -> str:
    """The largest array in the memory of a page, in words: by its path, or by the operation and its line."""
    arrays = sorted(block.state, key=lambda x: not x.path.startswith("params."))
    arrays += [x for f in block.functions for x in (*f.inputs, *f.outputs)]
    named = {f"{x.path}, {x.type}": in_multiples(int(x.type.nbytes)) for x in arrays}
    inner = [live for f in block.functions if (live := f.program.plan.largest)]
    named |= {f"{x.what} at {show(x.where)}" if x.where else x.what: in_multiples(x.nbytes) for x in inner}
    return max(named, key=named.__getitem__)


def page_function(found: Any, function: PlacedFunction) -> dict[str, Any]:
    """A recorded function as the page takes it: its dispatches, its scalars, and its input and output arrays."""
    sites = function.program.plan.sites
    return {
        "entries": [page_entry(entry, sites, found.steers) for entry in found.entries],
        "code": code_text(found.code),
        "values": found.values,
        "following": found.following,
        "sites": [site_text(unpack_site(s.kind, s.facts, s.where), s.facts) for s in sites],
        "inputs": list(map(page_array, function.inputs)),
        "outputs": list(map(page_array, function.outputs)),
    }


def page_array(x: PlacedArray) -> dict[str, Any]:
    """An array as the page takes it."""
    kind = KINDS[dtypes.short(x.stored)]
    shape = [*x.type.shape, 2] if x.type.dtype.kind == "c" else list(x.type.shape)
    return {"path": x.path, "kind": kind, "shape": shape, "address": x.offset, "nbytes": int(x.type.nbytes)}


def page_rows(engine: Engine, data: Any, shuffle: bool) -> dict[str, Any]:
    """The data and the order of its rows: the streams of random words from which `step.run` draws."""
    streams = [SPLIT, FOLD, BITS] if shuffle else None
    heads = {leaf.type.shape[:1] for leaf in engine.signature.leaves}
    if data is None:
        size = next(iter(heads))[0] if len(heads) == 1 and () not in heads else None
        return {"rows": {"count": 0, "size": size, "streams": streams, "data": None}}
    signature = BatchSignature(data, "data", "export")
    check_rows(engine.signature, signature, 1)
    size, rows = default_batch_size(engine), signature.leaves[0].type.shape[0]
    if rows < size:
        raise ShapeError(f"export: {rows} rows give no batch of {size}", hint="give at least one batch")
    drawn = rows if shuffle else rows // size * size
    own = [encoded_bytes(a[:drawn].tobytes()) for a in signature.checked(data)]
    return {"rows": {"count": drawn, "size": size, "streams": streams, "data": own}}


def page_state(engine: Engine, block: MemoryBlock) -> dict[str, Any]:
    """The state of a page: its place in memory, the layout of its file, and the current arrays."""
    first = min(x.offset for x in block.state)
    end = max(x.offset + int(x.type.nbytes) for x in block.state)
    file, arrays = state_file(engine, block.state), saved_arrays(engine)
    counters = {name: x.offset for x in block.state for name in ("key", "step") if x.path == f"counters.{name}"}
    return {
        "counters": counters,
        "state": [first, end - first],
        "head": file.json_text,
        "own": [a.offset for a in file.arrays],
        "start": encoded_bytes(b"".join([arrays[x.path].tobytes() for x in file.arrays])),
    }


def page_entry(entry: tuple[Any, ...], sites: Sequence[Any], steers: bool) -> tuple[Any, ...]:
    """An entry as the page takes it: a launch, or a check or a choice as the words of an order of `control.wgsl`.

    The page writes the number of launches and the words of each into words 1 and 2. A check ends with the address of
    the number in its message.
    """
    if entry[0] == "launch":
        return entry
    kind, number, address, rest = entry
    if kind == "check":
        value = address + I64.itemsize * (sites[number - 1].kind == "index")
        return kind, [0, 0, 0, address, rest & WORD_MASK, rest >> 32 & WORD_MASK, number, value]
    return kind, [1, 0, 0, address, number, len(rest), int(steers), 0, *[at for case in rest for at in case]]


def site_text(site: ErrorSite, facts: Any) -> str:
    """The message of a page for a failure, with {value} in place of the index."""
    axis, size = facts if site.kind == "bounds" else (0, 0)
    place = show(site.where)
    text = site.message.format(value="{value}", axis=axis, size=size)
    return f"{text} at {place}" if place else text
