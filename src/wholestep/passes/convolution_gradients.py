"""A convolution and its two gradients as one contraction each, of windows over a padded array with a stored one."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.rewrite import Replace, Rules, Uses, at_roots, defining_node, new_value, to_fixpoint
from wholestep.passes.rules.einsum_labels import Contraction, parse_contraction, without_labels
from wholestep.passes.rules.movement import inverse_permutation, permute_value, reshape_value
from wholestep.primitives.contraction import LETTERS
from wholestep.primitives.movement import spread

Ints = tuple[Any, ...]


def convolution_gradients(graph: Graph) -> Graph:
    """Merge windows over one axis each, and contract windows over the result's gradient instead of adding windows up.

        c = contract(g, w, spec="np,k->npk"); u = unwindow(c, sizes=(6,), stride=(1,), dilation=(1,))
        -->
        p = pad(g, before=(0, 2), after=(0, 2)); v = window(p, size=(3,)); f = flip(w, axes=(0,))
        u = contract(v, f, spec="npk,k->np")

    Equal up to rounding: the same products are added, in another order. The padding adds products with zero, which
    are zero where w is finite; an infinity in w makes NaN of places that it does not reach.
    """
    return to_fixpoint(graph, _convolution_rules)


def _convolution_rules(uses: Uses) -> Rules:
    rules: dict[str, Replace] = {
        "window": window_of_window,
        "pad": pad_of_window,
        "unwindow": lambda node: unwindow_of_produced(node, uses),
        "slice": lambda node: slice_of_produced(node, uses),
    }
    return at_roots(rules)


def through_permute(v: Value) -> tuple[Value, tuple[int, ...]]:
    """The operand of a permutation and its axes; a value that is not permuted, and the identity."""
    permute = defining_node(v, "permute")
    return (permute.inputs[0], permute.params["axes"]) if permute else (v, tuple(range(v.ndim)))


# Windows of windows


def window_of_window(node: Node) -> Value | None:
    """Windows over some axes and then over others as one window over both."""
    x, order = through_permute(node.inputs[0])
    inner = defining_node(x, "window")
    if inner is None:
        return None
    y, k, j = inner.inputs[0], len(inner.params["size"]), len(node.params["size"])
    lead, last = y.ndim - k, order[len(order) - j :]
    if any(a >= lead for a in last):
        return None
    rest = [a for a in range(lead) if a not in last]
    slid = (*range(lead, y.ndim), *last)
    stored = through_permute(y)[1]
    turn = sorted(range(k + j), key=lambda t: stored[slid[t]])  # windows in the order in which the axes are stored
    params = {
        key: tuple([(inner.params[key] + node.params[key])[t] for t in turn]) for key in ("size", "stride", "dilation")
    }
    seen = new_value(node, "window", permute_value(node, y, (*rest, *[slid[t] for t in turn])), **params)
    front, n = len(rest), k + j
    places = {a: i for i, a in enumerate(rest)}
    places.update({lead + t: front + turn.index(t) for t in range(k)})
    places.update({y.ndim + t: front + n + turn.index(t) for t in range(k)})
    own = [turn.index(t) for t in range(k, n)]
    kept = [places[a] for a in order[: len(order) - j]]
    return permute_value(node, seen, (*kept, *[front + t for t in own], *[front + n + t for t in own]))


def pad_of_window(node: Node) -> Value | None:
    """A pad beside the window axes as a pad of the window's operand."""
    x, order = through_permute(node.inputs[0])
    seen = defining_node(x, "window")
    if seen is None:
        return None
    y, k = seen.inputs[0], len(seen.params["size"])
    back = inverse_permutation(order)
    widths = {key: tuple([v[a] for a in back]) for key, v in node.params.items()}
    if any(n for v in widths.values() for n in v[y.ndim - k :]):
        return None
    wide = new_value(node, "pad", y, **{key: (*v[: y.ndim - k], *[0] * k) for key, v in widths.items()})
    return permute_value(node, new_value(node, "window", wide, **seen.params), order)


# Unwindow: the transpose of a window


def unwindow_of_produced(node: Node, uses: Uses) -> Value | None:
    if lie_side_by_side(node):
        return joined_windows(node)
    x, order = through_permute(node.inputs[0])
    made = defining_node(x, "unwindow", "pad")
    if made is None:
        c = products_to_unwind(node, uses)
        found = None if c is None else transposed_convolution(node, c)
        return None if found is None else reshape_value(node, found, node.outputs[0].shape)
    if made.op.name == "unwindow":
        return unwindow_of_unwindow(node, made, order)
    return unwindow_of_pad(node, made, order)


def lie_side_by_side(node: Node) -> bool:
    """Test whether the windows of an unwindow neither overlap nor leave places between them.

    Windows of two elements are not counted: the phases of their convolution are faster. Measured: twice as fast.
    """
    params, shape = node.params, node.inputs[0].shape
    size = shape[len(shape) - len(params["sizes"]) :]
    apart = [m == s and (d == 1 or m == 1) for m, s, d in zip(size, params["stride"], params["dilation"], strict=True)]
    return 0 not in shape and all(apart) and any(isinstance(m, int) and m > 2 for m in size)


def joined_windows(node: Node) -> Value:
    """Windows side by side as a reshape, padded by the places after the last window."""
    y, sizes = node.inputs[0], node.params["sizes"]
    k = len(sizes)
    lead = y.ndim - 2 * k
    order = [a for i in range(k) for a in (lead + i, lead + k + i)]
    covered = [y.shape[lead + i] * y.shape[lead + k + i] for i in range(k)]
    joined = reshape_value(node, permute_value(node, y, (*range(lead), *order)), (*y.shape[:lead], *covered))
    none, rest = (0,) * joined.ndim, [n - m for n, m in zip(sizes, covered, strict=True)]
    return new_value(node, "pad", joined, before=none, after=(*none[:lead], *rest), interior=none)


def unwindow_of_unwindow(node: Node, inner: Node, order: tuple[int, ...]) -> Value | None:
    """Unwindows along some axes and then along others as one unwindow along both."""
    y, k, j = inner.inputs[0], len(inner.params["sizes"]), len(node.params["sizes"])
    lead, last = y.ndim - 2 * k, order[len(order) - 2 * j :]
    if any(a >= lead for a in last):
        return None
    rest = [a for a in range(lead) if a not in last]
    axes = (*rest, *range(lead, lead + k), *last[:j], *range(lead + k, y.ndim), *last[j:])
    both = {key: inner.params[key] + node.params[key] for key in ("sizes", "stride", "dilation")}
    made = new_value(node, "unwindow", permute_value(node, y, axes), **both)
    places = {a: i for i, a in enumerate(rest)}
    places.update({lead + i: len(rest) + i for i in range(k)})
    front = [places[a] for a in order[: len(order) - 2 * j]]
    return permute_value(node, made, (*front, *range(made.ndim - j, made.ndim)))


def unwindow_of_pad(node: Node, pad: Node, order: tuple[int, ...]) -> Value | None:
    """An unwindow of a pad with interior zeros as an unwindow with a stride."""
    if 0 in pad.inputs[0].shape:
        return None
    y, sizes = permute_value(node, pad.inputs[0], order), node.params["sizes"]
    before, after, interior = [tuple([pad.params[key][a] for a in order]) for key in ("before", "after", "interior")]
    k = len(sizes)
    lead = y.ndim - 2 * k
    if any((*before[:lead], *interior[:lead], *after[:lead])):
        return None
    own, stride, dilation, first = [], [], [], []
    for i, (s, d) in enumerate(zip(node.params["stride"], node.params["dilation"], strict=True)):
        p, m = lead + i, lead + k + i
        stride.append(s * (interior[p] + 1))
        dilation.append(d * (interior[m] + 1))
        first.append(before[p] * s + before[m] * d)
        own.append(spread(y.shape[p], stride[-1]) + spread(y.shape[m], dilation[-1]) - 1)
    made = new_value(node, "unwindow", y, sizes=tuple(own), stride=tuple(stride), dilation=tuple(dilation))
    rest = [n - a - m for n, a, m in zip(sizes, first, own, strict=True)]
    none = (0,) * lead
    return new_value(node, "pad", made, before=(*none, *first), after=(*none, *rest), interior=(0,) * made.ndim)


def products_to_unwind(node: Node, uses: Uses) -> Contraction | None:
    """The operand of an unwindow as a contraction, if it is one, or a product of broadcasts, that is only moved.

    Only axes before the places may be several labels, or none, as those of groups; a place or an inside of size 1 is a
    label of the operand that has the others.
    """
    x, order = through_permute(node.inputs[0])
    moved = defining_node(x, "reshape")
    y = moved.inputs[0] if moved else x
    made = defining_node(y, "contract", "mul")
    if made is None or 0 in x.shape or any(uses.get(v, 1) != 1 for v in (node.inputs[0], x, y)):
        return None
    c = parse_contraction(made) if made.op.name == "contract" else product_of_broadcasts(made)
    if c is not None and made.op.name == "contract" and moved is None:
        return c if x is node.inputs[0] else None  # it takes in the permutation first
    if c is None:
        return None
    ones = {label for label in c.sizes if c.sizes[label] == 1}
    c = c.without_operand_labels(ones)._replace(out=without_labels(c.out, ones))
    runs, free, k = label_runs(c, x.shape), [a for a in LETTERS if a not in c.sizes], len(node.params["sizes"])
    if runs is None or len(free) < 2 * k or any(len(runs[a]) > 1 for a in order[len(order) - 2 * k :]):
        return None
    lead = [runs[a] for a in order[: len(order) - 2 * k]]
    tail = [runs[a] or free.pop() for a in order[len(order) - 2 * k :]]
    c = c._replace(out="".join([*lead, *tail]), sizes={**dict.fromkeys(tail, 1), **c.sizes})
    i = 0 if {label for label in tail[:k] if label in c.labels[0] + c.labels[1]} <= set(c.labels[0]) else 1
    for at, labels in ((i, tail[:k]), (1 - i, tail[k:])):
        own = c.labels[at] + "".join([label for label in labels if c.sizes[label] == 1])
        c = c.with_operand(at, reshape_value(node, c.operands[at], c.shape(own)), own)
    return c


def product_of_broadcasts(mul: Node) -> Contraction | None:
    """A product of two broadcasts as a contraction that sums nothing."""
    a, b = [defining_node(v, "broadcast") for v in mul.inputs]
    shape = mul.outputs[0].shape
    if a is None or b is None or len(shape) > len(LETTERS):
        return None
    labels = ["".join([LETTERS[i] for i in p.params["axes"]]) for p in (a, b)]
    sizes = dict(zip(LETTERS, shape, strict=False))
    return Contraction(mul, (a.inputs[0], b.inputs[0]), (labels[0], labels[1]), LETTERS[: len(shape)], sizes)


def label_runs(c: Contraction, shape: Ints) -> list[str] | None:
    """The labels of a contraction's result that make up each axis of a reshape; None where one is cut in pieces."""
    left, runs = c.out, []
    for n in shape:
        count = next((i for i in range(len(left) + 1) if math.prod(c.shape(left[:i])) == n), None)
        if count is None:
            return None
        runs.append(left[:count])
        left = left[count:]
    return runs


class WindowAxis(NamedTuple):
    """One axis of a convolution: the labels of its places and of its windows, its size, its stride and dilation."""

    place: str
    inside: str
    size: Any
    stride: Any
    dilation: Any


def transposed_convolution(node: Node, c: Contraction) -> Value | None:
    """The unwindow of a contraction as a contraction of windows over the padded gradient with the flipped kernel."""
    params, k = node.params, len(node.params["sizes"])
    places, inside = c.out[len(c.out) - 2 * k : len(c.out) - k], c.out[len(c.out) - k :]
    i = 0 if set(places) <= set(c.labels[0]) else 1
    own, other = c.labels[i], c.labels[1 - i]
    if not set(places) <= set(own) - set(other) or not set(inside) <= set(other) - set(own):
        return None
    stored = through_permute(c.operands[i])[1]
    axes = [
        WindowAxis(*facts)
        for facts in zip(places, inside, *[params[p] for p in ("sizes", "stride", "dilation")], strict=True)
    ]
    axes.sort(key=lambda axis: stored[own.index(axis.place)])
    seen, labels = windows_of_gradient(node, c, i, axes)
    back = new_value(node, "flip", c.operands[1 - i], axes=tuple(sorted([other.index(m) for m in inside])))
    sizes = {**c.sizes, **{axis.place: axis.size for axis in axes}}
    made = c._replace(node=node, out=c.out[: len(c.out) - k], sizes=sizes)
    return made.with_operand(i, seen, labels).with_operand(1 - i, back, other).settled()


def windows_of_gradient(node: Node, c: Contraction, i: int, axes: list[WindowAxis]) -> tuple[Value, str]:
    """Windows over the padded operand, one at each place of the result, and their labels."""
    x, own = c.operands[i], c.labels[i]
    before, after, interior = [0] * x.ndim, [0] * x.ndim, [0] * x.ndim
    for axis in axes:
        at = own.index(axis.place)
        before[at], interior[at] = spread(c.sizes[axis.inside], axis.dilation) - 1, axis.stride - 1
        after[at] = axis.size - spread(c.sizes[axis.place], axis.stride)
    wide = new_value(node, "pad", x, before=tuple(before), after=tuple(after), interior=tuple(interior))
    slid, inside = "".join([axis.place for axis in axes]), "".join([axis.inside for axis in axes])
    rest = "".join([label for label in own if label not in slid])
    turned = permute_value(node, wide, tuple([own.index(label) for label in rest + slid]))
    dilation = tuple([axis.dilation for axis in axes])
    seen = new_value(node, "window", turned, size=c.shape(inside), stride=(1,) * len(axes), dilation=dilation)
    return seen, rest + slid + inside


# Slices move above windows and contractions


def slice_of_produced(node: Node, uses: Uses) -> Value | None:
    """A slice of a window, or of a contraction with one use, as that of sliced operands."""
    x = node.inputs[0]
    made = defining_node(x, "window", "contract")
    if made is None:
        return None
    if made.op.name == "window":
        return slice_of_window(node, made)
    return slice_of_contract(node, parse_contraction(made)) if uses.get(x, 1) == 1 else None


def slice_of_window(node: Node, seen: Node) -> Value | None:
    if 0 in node.outputs[0].shape:
        return None
    x, params, k = seen.inputs[0], seen.params, len(seen.params["size"])
    lead = x.ndim - k
    start, step, shape = node.params["start"], node.params["step"], node.outputs[0].shape
    first, last = list(start[:lead]), list(node.params["stop"][:lead])
    stride, dilation = [], []
    for i, (s, d) in enumerate(zip(params["stride"], params["dilation"], strict=True)):
        p, m = lead + i, lead + k + i
        stride.append(s * step[p])
        dilation.append(d * step[m])
        first.append(start[p] * s + start[m] * d)
        last.append(first[-1] + spread(shape[p], stride[-1]) + spread(shape[m], dilation[-1]) - 1)
    part = new_value(node, "slice", x, start=tuple(first), stop=tuple(last), step=(*step[:lead], *[1] * k))
    size = shape[lead + k :]
    return new_value(node, "window", part, size=size, stride=tuple(stride), dilation=tuple(dilation))


def slice_of_contract(node: Node, c: Contraction) -> Value:
    shape, cut = node.outputs[0].shape, node.params
    bounds = {label: (cut["start"][i], cut["stop"][i], cut["step"][i]) for i, label in enumerate(c.out)}
    made = c._replace(node=node)
    for i, (x, own) in enumerate(zip(c.operands, c.labels, strict=True)):
        if any(label in bounds and shape[c.out.index(label)] != c.sizes[label] for label in own):
            ends = [bounds.get(label, (0, n, 1)) for label, n in zip(own, x.shape, strict=True)]
            start, stop, step = zip(*ends, strict=True)
            made = made.with_operand(i, new_value(node, "slice", x, start=start, stop=stop, step=step), own)
    return made.value()
