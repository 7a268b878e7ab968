"""`wholestep audit webgpusteps`: random training steps of float32 on a WebGPU device, against float64."""

from __future__ import annotations

from wholestep_tools.audit.campaign import Audit
from wholestep_tools.audit.correctness.card_steps import HOW, audit

AUDIT = Audit(
    "webgpusteps",
    audit("webgpu"),
    2_000,
    "run random training steps on a WebGPU device, against float64",
    f"{HOW} No value of a step is float64, which WebGPU does not have. The device is lavapipe where there is no card.",
    shared=True,
)
