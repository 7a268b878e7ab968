"""`wholestep audit webgpu`: primitives on a WebGPU device give the numbers of the CPU's code."""

from __future__ import annotations

from wholestep_tools.audit.campaign import Audit
from wholestep_tools.audit.correctness.on_cards import audit

AUDIT = Audit(
    "webgpu",
    audit("webgpu"),
    1_000,
    "run samples of primitives on a WebGPU device, beside the CPU's code",
    """\
As `opencl`, by WebGPU and with inputs of float32 in the place of float64, which WebGPU does not have; primitives with
samples that need float64 nevertheless are refused and counted.""",
    shared=True,
)
