"""The rules of passes, each on the smallest program that it applies to: its result as text, with the same meaning."""

import numpy as np
import pytest

from wholestep.backends.reference import interpret
from wholestep.ir.text import parse
from wholestep.passes.differential_check import find_difference
from wholestep.passes.pipeline import EXACT_PASSES, PASSES

RULES = {
    "a difference of the opposite": (
        "simplify",
        """
def f(x: f32[3], y: f32[3]):
    neg_1: f32[3] = neg(y)
    sub_1: f32[3] = sub(x, neg_1)
    add_1: f32[3] = add(neg_1, sub_1)
    mul_1: f32[3] = mul(neg_1, neg_1)
    return add_1, mul_1
""",
    ),
    "a power of two divides exactly": (
        "simplify",
        """
def f(x: f32[3]):
    full_1: f32[3] = full(value=0.25, shape=(3,), dtype=f32)
    div_1: f32[3] = div(x, full_1)
    full_2: f32[3] = full(value=3, shape=(3,), dtype=f32)
    div_2: f32[3] = div(div_1, full_2)
    full_3: f32[3] = full(value=1.7014118346046923e+38, shape=(3,), dtype=f32)
    div_3: f32[3] = div(div_2, full_3)
    return div_3
""",
    ),
    "an empty broadcast comes first": (
        "simplify",
        """
def f(x: f32[2, 1]):
    broadcast_1: f32[0, 2, 1] = broadcast(x, shape=(0, 2, 1), axes=(1, 2))
    log1p_1: f32[0, 2, 1] = log1p(broadcast_1)
    return log1p_1
""",
    ),
    "small powers": (
        "simplify",
        """
def f(x: f64[3]):
    full_1: f64[3] = full(value=2, shape=(3,), dtype=f64)
    pow_1: f64[3] = pow(x, full_1)
    full_2: f64[3] = full(value=-1, shape=(3,), dtype=f64)
    pow_2: f64[3] = pow(pow_1, full_2)
    full_3: f64[3] = full(value=0.5, shape=(3,), dtype=f64)
    pow_3: f64[3] = pow(pow_2, full_3)
    full_4: f64[3] = full(value=3, shape=(3,), dtype=f64)
    pow_4: f64[3] = pow(pow_3, full_4)
    return pow_4
""",
    ),
    "a cast there and back": (
        "simplify",
        """
def f(x: f32[3], y: f64[3], z: i32[3]):
    cast_1: f64[3] = cast(x, dtype=f64)
    cast_2: f32[3] = cast(cast_1, dtype=f32)
    cast_3: f32[3] = cast(y, dtype=f32)
    cast_4: f64[3] = cast(cast_3, dtype=f64)
    cast_5: f64[3] = cast(z, dtype=f64)
    cast_6: i32[3] = cast(cast_5, dtype=i32)
    cast_7: f32[3] = cast(z, dtype=f32)
    cast_8: i32[3] = cast(cast_7, dtype=i32)
    return cast_2, cast_4, cast_6, cast_8
""",
    ),
    "a choice within a choice": (
        "simplify",
        """
def f(c: bool[3], x: f32[3], y: f32[3], z: f32[3]):
    bitwise_not_1: bool[3] = bitwise_not(c)
    select_1: f32[3] = select(bitwise_not_1, x, y)
    select_2: f32[3] = select(c, z, select_1)
    full_1: bool[3] = full(value=True, shape=(3,), dtype=bool)
    select_3: f32[3] = select(full_1, select_2, x)
    return select_3
""",
    ),
    "computed before it is repeated": (
        "simplify",
        """
def f(x: f32[3], y: f32[2, 3]):
    broadcast_1: f32[4, 2, 3] = broadcast(x, shape=(4, 2, 3), axes=(2,))
    full_1: f32[4, 2, 3] = full(value=3, shape=(4, 2, 3), dtype=f32)
    mul_1: f32[4, 2, 3] = mul(broadcast_1, full_1)
    broadcast_2: f32[4, 2, 3] = broadcast(y, shape=(4, 2, 3), axes=(1, 2))
    add_1: f32[4, 2, 3] = add(mul_1, broadcast_2)
    return add_1
""",
    ),
    "computed before it is reshaped": (
        "simplify",
        """
def f(x: f32[3]):
    reshape_1: f32[3, 1] = reshape(x, shape=(3, 1))
    full_1: f32[3, 1] = full(value=8, shape=(3, 1), dtype=f32)
    div_1: f32[3, 1] = div(reshape_1, full_1)
    reshape_2: f32[3] = reshape(div_1, shape=(3,))
    broadcast_1: f32[3, 4] = broadcast(reshape_2, shape=(3, 4), axes=(0,))
    return broadcast_1
""",
    ),
    "zeros at the ends": (
        "simplify",
        """
def f(x: f32[2, 3]):
    full_1: f32[2, 1] = full(value=0.0, shape=(2, 1), dtype=f32)
    concat_1: f32[2, 5] = concat(full_1, x, full_1, axis=1)
    full_2: f32[1, 5] = full(value=0.0, shape=(1, 5), dtype=f32)
    concat_2: f32[3, 5] = concat(full_2, concat_1, axis=0)
    full_3: f32[1, 5] = full(value=-0.0, shape=(1, 5), dtype=f32)
    concat_3: f32[4, 5] = concat(concat_2, full_3, axis=0)
    return concat_3
""",
    ),
    "a slice of padding and parts": (
        "simplify",
        """
def f(x: f32[4], y: f32[3]):
    pad_1: f32[11] = pad(x, before=(2,), after=(2,), interior=(1,))
    slice_1: f32[6] = slice(pad_1, start=(1,), stop=(7,), step=(1,))
    slice_2: f32[2] = slice(pad_1, start=(4,), stop=(7,), step=(2,))
    concat_1: f32[9] = concat(slice_1, y, axis=0)
    slice_3: f32[2] = slice(concat_1, start=(7,), stop=(9,), step=(1,))
    slice_4: f32[3] = slice(concat_1, start=(4,), stop=(7,), step=(1,))
    return slice_1, slice_2, slice_3, slice_4
""",
    ),
    "a slice of a slice": (
        "simplify",
        """
def f(x: f32[9, 4]):
    slice_1: f32[4, 4] = slice(x, start=(1, 0), stop=(9, 4), step=(2, 1))
    slice_2: f32[2, 3] = slice(slice_1, start=(1, 1), stop=(4, 4), step=(2, 1))
    return slice_2
""",
    ),
    "parts that were cut are joined": (
        "simplify",
        """
def f(x: f32[5]):
    slice_1: f32[2] = slice(x, start=(0,), stop=(2,), step=(1,))
    slice_2: f32[3] = slice(x, start=(2,), stop=(5,), step=(1,))
    concat_1: f32[5] = concat(slice_1, slice_2, axis=0)
    slice_3: f32[2] = slice(x, start=(3,), stop=(5,), step=(1,))
    concat_2: f32[4] = concat(slice_1, slice_3, axis=0)
    return concat_1, concat_2
""",
    ),
    "rows that were cut and reshaped are joined": (
        "simplify",
        """
def f(x: f32[3, 2, 2], y: f32[2, 3]):
    slice_1: f32[1, 2, 2] = slice(x, start=(1, 0, 0), stop=(2, 2, 2), step=(1, 1, 1))
    reshape_1: f32[1, 4] = reshape(slice_1, shape=(1, 4))
    slice_2: f32[1, 2, 2] = slice(x, start=(2, 0, 0), stop=(3, 2, 2), step=(1, 1, 1))
    reshape_2: f32[1, 4] = reshape(slice_2, shape=(1, 4))
    slice_3: f32[1, 2, 2] = slice(x, start=(0, 0, 0), stop=(1, 2, 2), step=(1, 1, 1))
    reshape_3: f32[1, 4] = reshape(slice_3, shape=(1, 4))
    concat_1: f32[3, 4] = concat(reshape_1, reshape_2, reshape_3, axis=0)
    slice_4: f32[2, 1] = slice(y, start=(0, 0), stop=(2, 1), step=(1, 1))
    reshape_4: f32[2, 1, 1] = reshape(slice_4, shape=(2, 1, 1))
    slice_5: f32[2, 1] = slice(y, start=(0, 1), stop=(2, 2), step=(1, 1))
    reshape_5: f32[2, 1, 1] = reshape(slice_5, shape=(2, 1, 1))
    concat_2: f32[2, 1, 2] = concat(reshape_4, reshape_5, axis=2)
    return concat_1, concat_2
""",
    ),
    "constants that need no memory": (
        "simplify",
        """
def f():
    constant_1: f32[3] = constant(value=array([0.5, 0.5, 0.5], f32))
    constant_2: i64[3] = constant(value=array([0, 1, 2], i64))
    constant_3: i64[3] = constant(value=array([0, 2, 2], i64))
    constant_4: f32[2] = constant(value=array([0.0, -0.0], f32))
    constant_5: u8[2, 3] = constant(value=array([[0, 1, 2], [0, 1, 2]], u8))
    constant_6: i64[2, 2] = constant(value=array([[0, 1], [1, 1]], i64))
    return constant_1, constant_2, constant_3, constant_4, constant_5, constant_6
""",
    ),
    "sums of numbers": (
        "simplify",
        """
def f():
    full_1: f32[4, 3] = full(value=0.5, shape=(4, 3), dtype=f32)
    sum_1: f32[4] = sum(full_1, axes=(1,))
    full_2: f32[10] = full(value=0.1, shape=(10,), dtype=f32)
    sum_2: f32 = sum(full_2, axes=(0,))
    return sum_1, sum_2
""",
    ),
    "a sum of nothing but zero and itself": (
        "simplify",
        """
def f(x: f32[3], y: i32[3]):
    sum_1: f32[3] = sum(x, axes=())
    sum_2: i32[3] = sum(y, axes=())
    full_1: f32[2, 3] = full(value=0, shape=(2, 3), dtype=f32)
    sum_3: f32[3] = sum(full_1, axes=(0,))
    return sum_1, sum_2, sum_3
""",
    ),
    "operands in either order": (
        "cse",
        """
def f(x: f32[2, 3], y: f32[2, 3], z: c64[2]):
    add_1: f32[2, 3] = add(x, y)
    add_2: f32[2, 3] = add(y, x)
    sub_1: f32[2, 3] = sub(add_1, add_2)
    maximum_1: f32[2, 3] = maximum(x, y)
    maximum_2: f32[2, 3] = maximum(y, x)
    contract_1: f32[2, 2] = contract(x, y, spec='ij,kj->ik')
    contract_2: f32[2, 2] = contract(x, y, spec='ab,cb->ac')
    contract_3: f32[2, 2] = contract(x, y, spec='ab,cb->ca')
    return sub_1, maximum_1, maximum_2, contract_1, contract_2, contract_3
""",
    ),
    "one label in each row": (
        "one_hot_indexing",
        """
def f(u: f32[3], label: i32[3]):
    full_1: f32[3, 5] = full(value=0, shape=(3, 5), dtype=f32)
    iota_1: i64[3] = iota(shape=(3,), axis=0, dtype=i64)
    scatter_add_1: f32[3, 5] = scatter_add(full_1, u, iota_1, label, axes=(0, 1))
    return scatter_add_1
""",
    ),
    "labels along an axis": (
        "one_hot_indexing",
        """
def f(u: f32[2, 1, 3], label: i8[2, 1, 3]):
    full_1: f32[2, 200, 3] = full(value=0, shape=(2, 200, 3), dtype=f32)
    iota_1: i64[2, 1, 3] = iota(shape=(2, 1, 3), axis=0, dtype=i64)
    iota_2: i64[2, 1, 3] = iota(shape=(2, 1, 3), axis=2, dtype=i64)
    scatter_add_1: f32[2, 200, 3] = scatter_add(full_1, u, iota_1, label, iota_2, axes=(0, 1, 2))
    return scatter_add_1
""",
    ),
    "a column that counts": (
        "simplify",
        """
def f():
    constant_1: i64[1, 3, 1] = constant(value=array([[[0], [1], [2]]], i64))
    reshape_1: i64[3, 1] = reshape(constant_1, shape=(3, 1))
    return reshape_1
""",
    ),
    "one label in a batch of one": (
        "one_hot_indexing",
        """
def f(u: f32[1, 4], label: i64[1, 4]):
    full_1: f32[1, 4, 3] = full(value=0, shape=(1, 4, 3), dtype=f32)
    full_2: i64[1, 4] = full(value=0, shape=(1, 4), dtype=i64)
    iota_1: i64[1, 4] = iota(shape=(1, 4), axis=1, dtype=i64)
    scatter_add_1: f32[1, 4, 3] = scatter_add(full_1, u, full_2, iota_1, label, axes=(0, 1, 2))
    return scatter_add_1
""",
    ),
    "one label in each row is written": (
        "one_hot_indexing",
        """
def f(u: f32[3], label: i32[3]):
    full_1: f32[3, 5] = full(value=2, shape=(3, 5), dtype=f32)
    iota_1: i64[3] = iota(shape=(3,), axis=0, dtype=i64)
    scatter_1: f32[3, 5] = scatter(full_1, u, iota_1, label, axes=(0, 1))
    return scatter_1
""",
    ),
    "one row for a label": (
        "one_hot_indexing",
        """
def f(u: f32[1, 4], label: i64[1]):
    full_1: f32[3, 4] = full(value=0, shape=(3, 4), dtype=f32)
    scatter_add_1: f32[3, 4] = scatter_add(full_1, u, label, axes=(0,))
    return scatter_add_1
""",
    ),
    "labels that may meet": (
        "one_hot_indexing",
        """
def f(u: f32[3, 4], label: i64[3]):
    full_1: f32[3, 4] = full(value=0, shape=(3, 4), dtype=f32)
    scatter_add_1: f32[3, 4] = scatter_add(full_1, u, label, axes=(0,))
    iota_1: i64[3, 2] = iota(shape=(3, 2), axis=0, dtype=i64)
    broadcast_1: i64[3, 2] = broadcast(label, shape=(3, 2), axes=(0,))
    full_2: f32[3, 2] = full(value=1, shape=(3, 2), dtype=f32)
    scatter_add_2: f32[3, 4] = scatter_add(full_1, full_2, iota_1, broadcast_1, axes=(0, 1))
    return scatter_add_1, scatter_add_2
""",
    ),
    "a count that starts again": (
        "one_hot_indexing",
        """
def f(u: f32[300], label: i64[300]):
    full_1: f32[300, 2] = full(value=0, shape=(300, 2), dtype=f32)
    iota_1: u8[300] = iota(shape=(300,), axis=0, dtype=u8)
    scatter_add_1: f32[300, 2] = scatter_add(full_1, u, iota_1, label, axes=(0, 1))
    return scatter_add_1
""",
    ),
    "reading in order": (
        "one_hot_indexing",
        """
def f(x: f32[3, 5]):
    iota_1: i32[4] = iota(shape=(4,), axis=0, dtype=i32)
    gather_1: f32[4, 3] = gather(x, iota_1, axes=(1,))
    return gather_1
""",
    ),
    "parts among zeros": (
        "pads_to_concat",
        """
def f(x: f32[2, 2], y: f32[2, 1], z: f32[2, 1]):
    pad_1: f32[2, 6] = pad(x, before=(0, 0), after=(0, 4), interior=(0, 0))
    pad_2: f32[2, 6] = pad(y, before=(0, 3), after=(0, 2), interior=(0, 0))
    pad_3: f32[2, 6] = pad(z, before=(0, 3), after=(0, 2), interior=(0, 0))
    add_1: f32[2, 6] = add(pad_2, pad_1)
    add_2: f32[2, 6] = add(pad_2, pad_3)
    pad_4: f32[2, 6] = pad(z, before=(0, 1), after=(0, 4), interior=(0, 0))
    add_3: f32[2, 6] = add(pad_1, pad_4)
    return add_1, add_2, add_3
""",
    ),
    "rows times columns": (
        "simplify_reductions",
        """
def f(x: f32[2, 3], y: f32[3, 4], z: f32[2, 3, 4]):
    broadcast_1: f32[2, 3, 4] = broadcast(x, shape=(2, 3, 4), axes=(0, 1))
    broadcast_2: f32[2, 3, 4] = broadcast(y, shape=(2, 3, 4), axes=(1, 2))
    mul_1: f32[2, 3, 4] = mul(broadcast_1, broadcast_2)
    sum_1: f32[2, 4] = sum(mul_1, axes=(1,))
    mul_2: f32[2, 3, 4] = mul(broadcast_1, z)
    sum_2: f32[2, 4] = sum(mul_2, axes=(1,))
    broadcast_3: f32[2, 3, 4, 5] = broadcast(x, shape=(2, 3, 4, 5), axes=(0, 1))
    broadcast_4: f32[2, 3, 4, 5] = broadcast(y, shape=(2, 3, 4, 5), axes=(1, 2))
    mul_3: f32[2, 3, 4, 5] = mul(broadcast_3, broadcast_4)
    sum_3: f32[2, 4] = sum(mul_3, axes=(1, 3))
    return sum_1, sum_2, sum_3
""",
    ),
    "an unwindow of products that repeat": (
        "convolution_gradients",
        """
def f(x: f64[3], y: f64[2]):
    broadcast_1: f64[4, 3, 2] = broadcast(x, shape=(4, 3, 2), axes=(1,))
    broadcast_2: f64[4, 3, 2] = broadcast(y, shape=(4, 3, 2), axes=(2,))
    mul_1: f64[4, 3, 2] = mul(broadcast_1, broadcast_2)
    unwindow_1: f64[4, 4] = unwindow(mul_1, sizes=(4,), stride=(1,), dilation=(1,))
    return unwindow_1
""",
    ),
    "truths are counted in four bytes": (
        "simplify_reductions",
        """
def f(x: bool[2, 3], y: i32[2, 3]):
    cast_1: i64[2, 3] = cast(x, dtype=i64)
    sum_1: i64[2] = sum(cast_1, axes=(1,))
    cast_2: f64[2, 3] = cast(x, dtype=f64)
    sum_2: f64[2] = sum(cast_2, axes=(1,))
    cast_3: i64[2, 3] = cast(y, dtype=i64)
    sum_3: i64[2] = sum(cast_3, axes=(1,))
    return sum_1, sum_2, sum_3
""",
    ),
    "a repeated product that is read twice": (
        "simplify_reductions",
        """
def f(x: f32[2, 3], y: f32[3, 4]):
    broadcast_1: f32[2, 3, 4] = broadcast(x, shape=(2, 3, 4), axes=(0, 1))
    broadcast_2: f32[2, 3, 4] = broadcast(y, shape=(2, 3, 4), axes=(1, 2))
    mul_1: f32[2, 3, 4] = mul(broadcast_1, broadcast_2)
    sum_1: f32[2, 4] = sum(mul_1, axes=(1,))
    return mul_1, sum_1
""",
    ),
    "a sum of a product": (
        "simplify_reductions",
        """
def f(x: f32[2, 3], y: f32[3, 4], z: f32[5, 2, 3], w: f32[5, 3, 4]):
    contract_1: f32[2, 4] = contract(x, y, spec='ij,jk->ik')
    sum_1: f32[4] = sum(contract_1, axes=(0,))
    contract_2: f32[5, 2, 4] = contract(z, w, spec='bij,bjk->bik')
    sum_2: f32[2, 4] = sum(contract_2, axes=(0,))
    return sum_1, sum_2
""",
    ),
    "what is repeated counts": (
        "simplify_reductions",
        """
def f(x: f32[2, 3]):
    broadcast_1: f32[2, 4, 3] = broadcast(x, shape=(2, 4, 3), axes=(0, 2))
    sum_1: f32[2] = sum(broadcast_1, axes=(1, 2))
    sum_2: f32[4, 3] = sum(broadcast_1, axes=(0,))
    sum_3: f32 = sum(sum_2, axes=(0, 1))
    return sum_1, sum_3
""",
    ),
    "products that sum nothing": (
        "simplify_reductions",
        """
def f(x: f32[2], y: f32[3], z: f32[3], w: f32[3, 1]):
    contract_1: f32[3, 2] = contract(x, y, spec='i,j->ji')
    contract_2: f32 = contract(y, z, spec='i,i->')
    reshape_1: f32[2, 1] = reshape(x, shape=(2, 1))
    contract_3: f32[3, 2] = contract(reshape_1, w, spec='ik,jk->ji')
    return contract_1, contract_2, contract_3
""",
    ),
    "half precision is summed wide": (
        "simplify_reductions",
        """
def f(x: f16[3], y: f16[3]):
    contract_1: f16 = contract(x, y, spec='i,i->')
    return contract_1
""",
    ),
    "transposes read and written": (
        "absorb_transposes",
        """
def f(x: f32[2, 3], w: f32[4, 3]):
    permute_1: f32[3, 4] = permute(w, axes=(1, 0))
    contract_1: f32[2, 4] = contract(x, permute_1, spec='ij,jk->ik')
    full_1: f32[2, 4] = full(value=3, shape=(2, 4), dtype=f32)
    mul_1: f32[2, 4] = mul(contract_1, full_1)
    permute_2: f32[4, 2] = permute(mul_1, axes=(1, 0))
    return permute_2
""",
    ),
    "repetitions read": (
        "absorb_transposes",
        """
def f(x: f32[3], w: f32[5, 3, 4]):
    broadcast_1: f32[5, 2, 3] = broadcast(x, shape=(5, 2, 3), axes=(2,))
    contract_1: f32[5, 2, 4] = contract(broadcast_1, w, spec='bij,bjk->bik')
    broadcast_2: f32[2, 3] = broadcast(x, shape=(2, 3), axes=(1,))
    contract_2: f32[3, 3] = contract(broadcast_2, broadcast_2, spec='ij,ik->jk')
    full_1: f32[2, 3] = full(value=0.5, shape=(2, 3), dtype=f32)
    contract_3: f32[2, 2] = contract(full_1, broadcast_2, spec='ij,kj->ik')
    return contract_1, contract_2, contract_3
""",
    ),
    "heads side by side": (
        "absorb_transposes",
        """
def f(x: f32[2, 3, 5, 4], w: f32[12, 6]):
    permute_1: f32[2, 5, 3, 4] = permute(x, axes=(0, 2, 1, 3))
    reshape_1: f32[10, 12] = reshape(permute_1, shape=(10, 12))
    contract_1: f32[10, 6] = contract(reshape_1, w, spec='ij,jk->ik')
    return contract_1
""",
    ),
    "axes of one": (
        "absorb_transposes",
        """
def f(x: f32[2, 3], w: f32[3, 1, 4]):
    reshape_1: f32[2, 1, 3] = reshape(x, shape=(2, 1, 3))
    contract_1: f32[2, 1, 4] = contract(reshape_1, w, spec='ioj,jok->iok')
    permute_1: f32[4, 1, 2] = permute(contract_1, axes=(2, 1, 0))
    return permute_1
""",
    ),
    "transposes move towards a product": (
        "absorb_transposes",
        """
def f(x: f32[2, 3], y: f32[2, 3], w: f32[2, 4]):
    permute_1: f32[3, 2] = permute(x, axes=(1, 0))
    permute_2: f32[3, 2] = permute(y, axes=(1, 0))
    mul_1: f32[3, 2] = mul(permute_1, permute_2)
    exp_1: f32[3, 2] = exp(mul_1)
    slice_1: f32[2, 2] = slice(exp_1, start=(1, 0), stop=(3, 2), step=(1, 1))
    pad_1: f32[4, 2] = pad(slice_1, before=(2, 0), after=(0, 0), interior=(0, 0))
    flip_1: f32[4, 2] = flip(pad_1, axes=(0,))
    concat_1: f32[8, 2] = concat(flip_1, pad_1, axis=0)
    contract_1: f32[8, 4] = contract(concat_1, w, spec='ij,jk->ik')
    sum_1: f32[2] = sum(concat_1, axes=(0,))
    return contract_1, sum_1
""",
    ),
    "a transpose that would only change places": (
        "absorb_transposes",
        """
def f(x: f32[2, 3, 4], y: f32[3, 2], z: f32[2, 4]):
    permute_1: f32[3, 2, 4] = permute(x, axes=(1, 0, 2))
    broadcast_1: f32[3, 2, 4] = broadcast(y, shape=(3, 2, 4), axes=(0, 1))
    mul_1: f32[3, 2, 4] = mul(permute_1, broadcast_1)
    broadcast_2: f32[3, 2, 4] = broadcast(z, shape=(3, 2, 4), axes=(1, 2))
    mul_2: f32[3, 2, 4] = mul(permute_1, broadcast_2)
    return mul_1, mul_2
""",
    ),
    "a transpose of parts": (
        "absorb_transposes",
        """
def f(x: f32[2, 3], w: f32[3, 4], v: f32[3, 4]):
    contract_1: f32[2, 4] = contract(x, w, spec='ij,jk->ik')
    contract_2: f32[2, 4] = contract(x, v, spec='ij,jk->ik')
    reshape_1: f32[2, 1, 4] = reshape(contract_1, shape=(2, 1, 4))
    reshape_2: f32[2, 1, 4] = reshape(contract_2, shape=(2, 1, 4))
    concat_1: f32[2, 2, 4] = concat(reshape_1, reshape_2, axis=1)
    permute_1: f32[4, 2, 2] = permute(concat_1, axes=(2, 1, 0))
    return permute_1
""",
    ),
    "a product that is read twice": (
        "absorb_transposes",
        """
def f(x: f32[2, 3], w: f32[3, 4]):
    contract_1: f32[2, 4] = contract(x, w, spec='ij,jk->ik')
    permute_1: f32[4, 2] = permute(contract_1, axes=(1, 0))
    return contract_1, permute_1
""",
    ),
    "windows of windows": (
        "convolution_gradients",
        """
def f(x: f32[2, 7, 9]):
    permute_1: f32[2, 9, 7] = permute(x, axes=(0, 2, 1))
    window_1: f32[2, 9, 3, 3] = window(permute_1, size=(3,), stride=(2,), dilation=(1,))
    permute_2: f32[2, 3, 3, 9] = permute(window_1, axes=(0, 2, 3, 1))
    window_2: f32[2, 3, 3, 7, 2] = window(permute_2, size=(2,), stride=(1,), dilation=(2,))
    return window_2
""",
    ),
    "windows added back twice": (
        "convolution_gradients",
        """
def f(y: f32[2, 3, 4, 5, 6]):
    unwindow_1: f32[2, 3, 4, 10] = unwindow(y, sizes=(10,), stride=(1,), dilation=(1,))
    permute_1: f32[2, 10, 3, 4] = permute(unwindow_1, axes=(0, 3, 1, 2))
    unwindow_2: f32[2, 10, 9] = unwindow(permute_1, sizes=(9,), stride=(2,), dilation=(1,))
    return unwindow_2
""",
    ),
    "a part of the windows": (
        "convolution_gradients",
        """
def f(x: f32[3, 9]):
    window_1: f32[3, 6, 4] = window(x, size=(4,), stride=(1,), dilation=(1,))
    slice_1: f32[2, 2, 2] = slice(window_1, start=(1, 1, 1), stop=(3, 6, 4), step=(1, 3, 2))
    return slice_1
""",
    ),
    "the gradient of a convolution": (
        "convolution_gradients",
        """
def f(g: f32[2, 5, 4], w: f32[3, 6, 4]):
    contract_1: f32[2, 6, 5, 3] = contract(g, w, spec='npo,kco->ncpk')
    pad_1: f32[2, 6, 10, 3] = pad(contract_1, before=(0, 0, 0, 0), after=(0, 0, 1, 0), interior=(0, 0, 1, 0))
    unwindow_1: f32[2, 6, 12] = unwindow(pad_1, sizes=(12,), stride=(1,), dilation=(1,))
    return unwindow_1
""",
    ),
    "windows side by side": (
        "convolution_gradients",
        """
def f(y: f32[5, 2, 3, 3, 4]):
    unwindow_1: f32[5, 6, 14] = unwindow(y, sizes=(6, 14), stride=(3, 4), dilation=(1, 1))
    return unwindow_1
""",
    ),
    "a permute of merged axes of a product": (
        "absorb_transposes",
        """
def f(x: f32[4, 3], w: f32[3, 5, 2]):
    contract_1: f32[4, 5, 2] = contract(x, w, spec='ij,jkl->ikl')
    reshape_1: f32[4, 10] = reshape(contract_1, shape=(4, 10))
    permute_1: f32[10, 4] = permute(reshape_1, axes=(1, 0))
    return permute_1
""",
    ),
    "a permute whose axes are split": (
        "absorb_transposes",
        """
def f(x: f32[4, 6, 3]):
    permute_1: f32[4, 3, 6] = permute(x, axes=(0, 2, 1))
    reshape_1: f32[4, 3, 1, 2, 3] = reshape(permute_1, shape=(4, 3, 1, 2, 3))
    return reshape_1
""",
    ),
    "a convolution over zeros between elements": (
        "convolution_phases",
        """
def f(g: f32[2, 5, 8], w: f32[3, 6, 8]):
    pad_1: f32[2, 11, 8] = pad(g, before=(0, 1, 0), after=(0, 1, 0), interior=(0, 1, 0))
    permute_1: f32[2, 8, 11] = permute(pad_1, axes=(0, 2, 1))
    window_1: f32[2, 8, 9, 3] = window(permute_1, size=(3,), stride=(1,), dilation=(1,))
    contract_1: f32[2, 6, 9] = contract(window_1, w, spec='nopk,kco->ncp')
    return contract_1
""",
    ),
    "a part of a product": (
        "convolution_gradients",
        """
def f(x: f32[4, 3], w: f32[3, 5]):
    contract_1: f32[4, 5] = contract(x, w, spec='ij,jk->ik')
    slice_1: f32[2, 5] = slice(contract_1, start=(0, 0), stop=(4, 5), step=(2, 1))
    return slice_1
""",
    ),
    "a matrix times a matrix times a vector": (
        "matrix_chain",
        """
def f(a: f32[8, 9], b: f32[9, 8], x: f32[8]):
    contract_1: f32[8, 8] = contract(a, b, spec='ij,jk->ik')
    contract_2: f32[8] = contract(contract_1, x, spec='ik,k->i')
    return contract_2
""",
    ),
    "four factors": (
        "matrix_chain",
        """
def f(a: f32[2, 9], b: f32[9, 3], c: f32[3, 9], d: f32[9, 2]):
    contract_1: f32[9, 9] = contract(b, c, spec='ij,jk->ik')
    contract_2: f32[2, 9] = contract(a, contract_1, spec='ij,jk->ik')
    contract_3: f32[2, 2] = contract(contract_2, d, spec='ij,jk->ik')
    return contract_3
""",
    ),
    "an inner product that is needed": (
        "matrix_chain",
        """
def f(a: f32[8, 9], b: f32[9, 8], x: f32[8]):
    contract_1: f32[8, 8] = contract(a, b, spec='ij,jk->ik')
    contract_2: f32[8] = contract(contract_1, x, spec='ik,k->i')
    return contract_1, contract_2
""",
    ),
}


def settled(graph, step):
    """The graph after a pass and the elimination of dead code."""
    return PASSES["dce"].rewrite(PASSES[step].rewrite(graph))


@pytest.mark.parametrize("name", RULES)
def test_rule(name, golden):
    step, source = RULES[name]
    graph = parse(source.strip() + "\n")
    made = settled(graph, step)
    assert find_difference(graph, made, step in EXACT_PASSES) == ""
    golden(f"{graph}\n# {step}\n{made}")


@pytest.mark.parametrize("dtype", ["i8", "u8", "i32", "i64"])
def test_labels_of_any_integer_dtype(dtype):
    name = "labels along an axis"
    step, source = RULES[name]
    graph = parse(source.replace("i8[", f"{dtype}[").strip() + "\n")
    made = settled(graph, step)
    rng = np.random.default_rng(0)
    least = 0 if dtype == "u8" else -100
    label = rng.integers(least, 120, (2, 1, 3)).astype(graph.in_types[1].dtype)
    u = rng.normal(size=(2, 1, 3)).astype(np.float32)
    u[0, 0, 0] = -0.0
    (a,), (b,) = interpret(graph, [u, label]), interpret(made, [u, label])
    assert a.tobytes() == np.ascontiguousarray(b).tobytes()
    assert "scatter_add" not in str(made)
