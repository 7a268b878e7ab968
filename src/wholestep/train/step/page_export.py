"""Pages: a step with its data and its state as one HTML file that trains in a browser, by WebGPU."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.compiler.backends import page_recorder, page_target
from wholestep.errors import ParameterError, ShapeError, UnsupportedError, show
from wholestep.export.native.block import laid_out
from wholestep.export.native.state_code import StateFile
from wholestep.export.page.files import code_text, encoded_bytes, page_text, without_layout
from wholestep.runtime.error_sites import ErrorSite, unpack_site
from wholestep.train.checkpoint.steps import saved_arrays
from wholestep.train.program.engine import Engine
from wholestep.train.program.resident_epochs import check_rows, default_batch_size
from wholestep.train.state.batch_signature import BatchSignature
from wholestep.train.step.native_export import state_arrays, state_file, step_plan

KIND = "page"
I64 = np.dtype(np.int64)
"""The dtype of a status, and of an index that is out of bounds, which lies behind it."""


def page_files(engine: Engine, path: Path, data: Any) -> dict[Path, bytes]:
    """The page of a step over data, in the order of its rows; raises UnsupportedError for what no page can do."""
    if data is None:
        raise ParameterError("export: a page trains on data of its own", hint="data= takes rows, as step.run does")
    if engine.count > 1:
        raise UnsupportedError(
            "export to page: the step takes several batches a call", hint="compile it without steps="
        )
    signature = BatchSignature(data, "data", "export")
    check_rows(engine.signature, signature, 1)
    size, rows = default_batch_size(engine), signature.leaves[0].type.shape[0]
    if rows < size:
        raise ShapeError(f"export: {rows} rows give no batch of {size}", hint="give at least one batch")
    step = step_plan(engine, KIND, page_target())
    block = laid_out(state_arrays(engine), [step])
    if block.kept is not None:
        raise UnsupportedError(
            "export to page: the step may fail after it has written its state", hint="check indices before the loss"
        )
    wide = [x for x in block.state if x.type.size == 1 and x.type.dtype.name in ("float64", "int64")]
    given = [(x.path, dtypes.short(x.type.dtype), x.offset) for x in block.state if x in wide]
    recorder = page_recorder(block.nbytes, given)
    found = recorder.record(block.functions[0].program)
    wgsl, kernels = recorder.module()
    outputs = {x.path: x for x in block.functions[0].outputs}
    if outputs["loss"].type.dtype.name != "float32":
        raise UnsupportedError(f"export to page: the loss is {outputs['loss'].type}", hint="return a float32")
    first = min(x.offset for x in block.state)
    end = max(x.offset + int(x.type.nbytes) for x in block.state)
    file = state_file(engine, block.state)
    batches = [
        {"address": x.offset, "nbytes": int(x.type.nbytes), "data": encoded_bytes(a[: rows // size * size].tobytes())}
        for x, a in zip(block.functions[0].inputs, signature.checked(data), strict=True)
    ]
    if any(int(x.type.nbytes) % 4 for x in block.functions[0].inputs):
        raise UnsupportedError("export to page: a batch takes bytes that are no multiple of 4", hint="pad it")
    program = {
        "bytes": -(-recorder.top // 256) * 256,
        "filled": [[at, encoded_bytes(x)] for at, x in recorder.filled],
        "wgsl": without_layout(wgsl),
        "kernels": kernels,
        "step": {
            "entries": [page_entry(entry, step.plan.sites) for entry in found.entries],
            "code": code_text(found.code),
            "values": found.values,
            "following": found.following,
            "steers": found.steers,
        },
        "given": [[x.dtype, x.address] for x in recorder.given],
        "state": [first, end - first],
        "inputs": batches,
        "batches": rows // size,
        "loss": outputs["loss"].offset,
        "finite": outputs["finite"].offset,
        "sites": [site_text(unpack_site(s.kind, s.facts, s.where), s.facts) for s in step.plan.sites],
        "head": file.head.decode("latin-1"),
        "places": {"data": file.data, **file.places()},
        "table": list(file.table()),
        "file": encoded_bytes(sealed_file(engine, file)),
    }
    return {path: page_text(f"{engine.step_function.name} in a page", program).encode()}


def page_entry(entry: tuple[Any, ...], sites: Sequence[Any]) -> tuple[Any, ...]:
    """An entry as the page takes it: a check ends with the place of the number that its message has."""
    if entry[0] != "check":
        return entry
    _, site, address, fine = entry
    return "check", site, address, str(fine), address + I64.itemsize * (sites[site - 1].kind == "index")


def sealed_file(engine: Engine, file: StateFile) -> bytes:
    """The state of now as the file that the page would save."""
    arrays, places = saved_arrays(engine), file.places()
    data = [arrays[x.path].tobytes() for x in file.arrays]
    head = bytearray(file.head)
    digests = "".join([hashlib.sha256(x).hexdigest() for x in data]).encode()
    head[places["DIGESTS"] : places["DIGESTS"] + len(digests)] = digests
    seal = hashlib.sha256(bytes(head[8:])).hexdigest().encode()
    head[places["SEAL"] : places["SEAL"] + 64] = seal
    return bytes(head) + b"".join(data)


def site_text(site: ErrorSite, facts: Any) -> str:
    """The words of a page for a failure, {value} for the index."""
    axis, size = facts if site.kind == "bounds" else (0, 0)
    place = show(site.where)
    text = site.message.format(value="{value}", axis=axis, size=size)
    return f"{text} at {place}" if place else text
