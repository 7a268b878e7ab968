"""Registry of the lowering rules of operations that are not fused: those with a kernel or routine of their own."""

from __future__ import annotations

from wholestep.errors import UnsupportedError
from wholestep.ir.graph import Node
from wholestep.lower.buffers.materialize import Materializer
from wholestep.lower.legalize.internal_ops import (
    ArgsortOp,
    CollectOp,
    DFTStepOp,
    PairedTermsOp,
    PivotPermutationOp,
    RequireOp,
    RunStartsOp,
    TriangularRootOp,
)
from wholestep.lower.ops import control_flow, matrix_kernels, merge_sort, philox
from wholestep.lower.ops.fourier import dft_step_tasks, paired_terms_tasks
from wholestep.lower.ops.loop_templates import OpaqueRule, computed_operands, concat_tasks, leaf_operands
from wholestep.lower.ops.prefix_scans import prefix_scan_tasks
from wholestep.lower.ops.rank_sort import sort_tasks
from wholestep.lower.ops.scatter import scatter_operands, scatter_tasks, slice_tasks
from wholestep.lower.ops.scatter_runs import collect_tasks, run_starts_tasks
from wholestep.primitives.class_table import ClassTable
from wholestep.primitives.indexing import Scatter
from wholestep.primitives.loops import Scan
from wholestep.primitives.movement import Concat, UpdateSlice
from wholestep.primitives.order import Cummax
from wholestep.primitives.random import RandomBits, RandomBlocks
from wholestep.primitives.reduction import Running
from wholestep.primitives.structure import Cond, While


def materialize_operands(low: Materializer, node: Node) -> None:
    """Materialize the operands and results of a node."""
    opaque_rule(low, node).demands(low, node)
    for v in node.outputs:
        low.materialize(v)


def opaque_rule(low: Materializer, node: Node) -> OpaqueRule:
    """The rule of an operation, the target's own first; raises UnsupportedError where there is none."""
    found = low.context.target.library_rules().get(node.op.name) or OPAQUE_RULES.of(node.op)
    if found is None:
        name = node.params.get("routine", node.op.name)
        raise UnsupportedError(
            f"compile: {name} of {', '.join(map(str, node.types))} is not compiled for this device yet",
            where=node.where,
            hint="use device='reference'",
        )
    return found


OPAQUE_RULES: ClassTable[OpaqueRule] = ClassTable(
    {
        Concat: OpaqueRule(computed_operands, concat_tasks),
        Scatter: OpaqueRule(scatter_operands, scatter_tasks),
        UpdateSlice: OpaqueRule(scatter_operands, slice_tasks),
        Running: OpaqueRule(leaf_operands, prefix_scan_tasks),
        Cummax: OpaqueRule(leaf_operands, prefix_scan_tasks),
        Scan: OpaqueRule(control_flow.control_flow_operands, control_flow.scan_tasks),
        While: OpaqueRule(control_flow.control_flow_operands, control_flow.while_tasks),
        Cond: OpaqueRule(control_flow.control_flow_operands, control_flow.cond_tasks),
        RandomBits: OpaqueRule(leaf_operands, philox.random_bits_tasks),
        RandomBlocks: OpaqueRule(leaf_operands, philox.random_blocks_tasks),
        ArgsortOp: OpaqueRule(merge_sort.keys_in_rows, sort_tasks),
        RunStartsOp: OpaqueRule(leaf_operands, run_starts_tasks),
        CollectOp: OpaqueRule(leaf_operands, collect_tasks),
        DFTStepOp: OpaqueRule(computed_operands, dft_step_tasks),
        PairedTermsOp: OpaqueRule(computed_operands, paired_terms_tasks),
        RequireOp: OpaqueRule(leaf_operands, matrix_kernels.require_tasks),
        PivotPermutationOp: OpaqueRule(leaf_operands, matrix_kernels.exchanged_tasks),
        TriangularRootOp: OpaqueRule(leaf_operands, matrix_kernels.triangular_root_tasks),
    }
)
"""The rule of each operation with a kernel or routine of its own."""
