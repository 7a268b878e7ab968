"""The target of graphics cards: workgroups with shared memory and barriers, and kernels in rows of work items."""

from __future__ import annotations

from wholestep.lower.target import Target

OPENCL = Target(name="opencl", spaces=frozenset({"global", "shared", "private"}), barriers=True)
"""Cards that OpenCL reaches."""
