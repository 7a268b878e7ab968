"""Instruction sets below the processor's: the settings that keep each library to one of them."""

from __future__ import annotations

from wholestep.backends.cpu.cpu_features import host_levels
from wholestep.errors import CommandError

AVX2 = {
    "WHOLESTEP_TARGET": "x86-64-v3",
    "OPENBLAS_CORETYPE": "Haswell",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "ATEN_CPU_CAPABILITY": "avx2",
    # The kernels of YNNPACK look at the processor and at no setting, so that JAX does without them and takes Eigen's.
    "XLA_FLAGS": "--xla_cpu_max_isa=AVX2 --xla_cpu_experimental_ynn_fusion_type=",
}
LIMITS = {"avx2": AVX2}
"""The variables that hold NumPy and SciPy, PyTorch, JAX and Wholestep to an instruction set, by its name."""


def limits(isa: str) -> dict[str, str]:
    """The variables that hold every library to an instruction set, or none where it has no name.

    Raises CommandError where the processor does not have it.

    >>> limits("")
    {}
    """
    if not isa:
        return {}
    chosen = LIMITS[isa]
    if chosen["WHOLESTEP_TARGET"] not in host_levels():
        raise CommandError(f"this processor has no {isa.upper()}", hint="leave out --isa")
    return chosen
