"""A convolution and its two gradients as one contraction each, of windows over a padded array with a stored one."""

from __future__ import annotations

from typing import Any, NamedTuple

from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.labels import Labelled, labelled
from wholestep.passes.places import inverse, permuted
from wholestep.passes.rewrite import Uses, count_uses, made_by, make, repeated, rewrite
from wholestep.primitives.movement import spread

Ints = tuple[Any, ...]


def convolutions(graph: Graph) -> Graph:
    """Merge windows over one axis each, and contract windows over the result's gradient instead of adding windows up.

        c = contract(g, w, spec="np,k->npk"); u = unwindow(c, sizes=(6,), stride=(1,), dilation=(1,))
        -->
        p = pad(g, before=(0, 2), after=(0, 2)); v = window(p, size=(3,)); f = flip(w, axes=(0,))
        u = contract(v, f, spec="npk,k->np")

    Equal up to rounding: the same products are added, in another order. The padding adds products with zero, which
    are zero where w is finite; an infinity in w makes NaN of places that it does not reach.
    """
    return repeated(_once, graph)


def _once(graph: Graph) -> Graph:
    uses = count_uses(graph)

    def replace(node: Node) -> Value | None:
        name = node.op.name
        if name == "window":
            return window_of_window(node)
        if name == "pad":
            return pad_of_window(node)
        if name == "unwindow":
            return unwindow_of(node, uses)
        return slice_of(node, uses) if name == "slice" else None

    return rewrite(graph, replace, uses)


def through_permute(v: Value) -> tuple[Value, tuple[int, ...]]:
    """What a permutation permutes, and its order of axes; a value that is not permuted is in its own order."""
    permute = made_by(v, "permute")
    return (permute.inputs[0], permute.params["axes"]) if permute else (v, tuple(range(v.ndim)))


# Windows of windows


def window_of_window(node: Node) -> Value | None:
    """Windows over some axes, then over others, as windows over both."""
    x, order = through_permute(node.inputs[0])
    inner = made_by(x, "window")
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
    seen = make(node, "window", permuted(node, y, (*rest, *[slid[t] for t in turn])), **params)
    front, n = len(rest), k + j
    places = {a: i for i, a in enumerate(rest)}
    places.update({lead + t: front + turn.index(t) for t in range(k)})
    places.update({y.ndim + t: front + n + turn.index(t) for t in range(k)})
    own = [turn.index(t) for t in range(k, n)]
    kept = [places[a] for a in order[: len(order) - j]]
    return permuted(node, seen, (*kept, *[front + t for t in own], *[front + n + t for t in own]))


def pad_of_window(node: Node) -> Value | None:
    """Padding beside the windows is padding of what they are windows of."""
    x, order = through_permute(node.inputs[0])
    seen = made_by(x, "window")
    if seen is None:
        return None
    y, k = seen.inputs[0], len(seen.params["size"])
    back = inverse(order)
    widths = {key: tuple([v[a] for a in back]) for key, v in node.params.items()}
    if any(n for v in widths.values() for n in v[y.ndim - k :]):
        return None
    wide = make(node, "pad", y, **{key: (*v[: y.ndim - k], *[0] * k) for key, v in widths.items()})
    return permuted(node, make(node, "window", wide, **seen.params), order)


# What is added back


def unwindow_of(node: Node, uses: Uses) -> Value | None:
    x, order = through_permute(node.inputs[0])
    name = x.node.op.name if x.node is not None else ""
    if name == "unwindow":
        return unwindow_of_unwindow(node, x, order)
    if x.node is not None and name == "pad":
        return unwindow_of_pad(node, x.node, order)
    if name == "contract" and x is node.inputs[0] and uses.get(x, 1) == 1 and 0 not in x.shape:
        assert x.node is not None
        return transposed_convolution(node, labelled(x.node))
    return None


def unwindow_of_unwindow(node: Node, x: Value, order: tuple[int, ...]) -> Value | None:
    """Windows added back along some axes, then along others, as windows over both."""
    assert x.node is not None
    inner: Node = x.node
    y, k, j = inner.inputs[0], len(inner.params["sizes"]), len(node.params["sizes"])
    lead, last = y.ndim - 2 * k, order[len(order) - 2 * j :]
    if any(a >= lead for a in last):
        return None
    rest = [a for a in range(lead) if a not in last]
    axes = (*rest, *range(lead, lead + k), *last[:j], *range(lead + k, y.ndim), *last[j:])
    both = {key: inner.params[key] + node.params[key] for key in ("sizes", "stride", "dilation")}
    made = make(node, "unwindow", permuted(node, y, axes), **both)
    places = {a: i for i, a in enumerate(rest)}
    places.update({lead + i: len(rest) + i for i in range(k)})
    front = [places[a] for a in order[: len(order) - 2 * j]]
    return permuted(node, made, (*front, *range(made.ndim - j, made.ndim)))


def unwindow_of_pad(node: Node, pad: Node, order: tuple[int, ...]) -> Value | None:
    """Windows of which only every so many-th is not zero are windows with a stride."""
    if 0 in pad.inputs[0].shape:
        return None
    y, sizes = permuted(node, pad.inputs[0], order), node.params["sizes"]
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
    made = make(node, "unwindow", y, sizes=tuple(own), stride=tuple(stride), dilation=tuple(dilation))
    rest = [n - a - m for n, a, m in zip(sizes, first, own, strict=True)]
    none = (0,) * lead
    return make(node, "pad", made, before=(*none, *first), after=(*none, *rest), interior=(0,) * made.ndim)


class Slid(NamedTuple):
    """One axis of a convolution: the labels of its places and of its windows, its size, its stride and dilation."""

    place: str
    inside: str
    size: Any
    stride: Any
    dilation: Any


def transposed_convolution(node: Node, c: Labelled) -> Value | None:
    """Windows over the padded gradient, with the other operand turned round."""
    params, k = node.params, len(node.params["sizes"])
    places, inside = c.out[len(c.out) - 2 * k : len(c.out) - k], c.out[len(c.out) - k :]
    i = 0 if set(places) <= set(c.labels[0]) else 1
    own, other = c.labels[i], c.labels[1 - i]
    if not set(places) <= set(own) - set(other) or not set(inside) <= set(other) - set(own):
        return None
    stored = through_permute(c.operands[i])[1]
    axes = [
        Slid(*facts)
        for facts in zip(places, inside, *[params[p] for p in ("sizes", "stride", "dilation")], strict=True)
    ]
    axes.sort(key=lambda axis: stored[own.index(axis.place)])
    seen, labels = windows_of_gradient(node, c, i, axes)
    back = make(node, "flip", c.operands[1 - i], axes=tuple(sorted([other.index(m) for m in inside])))
    made = c._replace(node=node, out=c.out[: len(c.out) - k])
    return made.with_operand(i, seen, labels).with_operand(1 - i, back, other).value()


def windows_of_gradient(node: Node, c: Labelled, i: int, axes: list[Slid]) -> tuple[Value, str]:
    """The padded operand, a window at each place of the result, and its labels."""
    x, own = c.operands[i], c.labels[i]
    before, after, interior = [0] * x.ndim, [0] * x.ndim, [0] * x.ndim
    for axis in axes:
        at = own.index(axis.place)
        before[at], interior[at] = spread(c.sizes[axis.inside], axis.dilation) - 1, axis.stride - 1
        after[at] = axis.size - spread(c.sizes[axis.place], axis.stride)
    wide = make(node, "pad", x, before=tuple(before), after=tuple(after), interior=tuple(interior))
    slid, inside = "".join([axis.place for axis in axes]), "".join([axis.inside for axis in axes])
    rest = "".join([label for label in own if label not in slid])
    turned = permuted(node, wide, tuple([own.index(label) for label in rest + slid]))
    dilation = tuple([axis.dilation for axis in axes])
    seen = make(node, "window", turned, size=c.shape(inside), stride=(1,) * len(axes), dilation=dilation)
    return seen, rest + slid + inside


# What is not needed is not computed


def slice_of(node: Node, uses: Uses) -> Value | None:
    """A part of the windows, or of a product that is read nowhere else, is that of a part of what it is made of."""
    x = node.inputs[0]
    if made_by(x, "window"):
        return slice_of_window(node)
    if made_by(x, "contract") and uses.get(x, 1) == 1:
        assert x.node is not None
        return slice_of_contract(node, labelled(x.node))
    return None


def slice_of_window(node: Node) -> Value | None:
    seen = node.inputs[0].node
    if seen is None or 0 in node.outputs[0].shape:
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
    part = make(node, "slice", x, start=tuple(first), stop=tuple(last), step=(*step[:lead], *[1] * k))
    size = shape[lead + k :]
    return make(node, "window", part, size=size, stride=tuple(stride), dilation=tuple(dilation))


def slice_of_contract(node: Node, c: Labelled) -> Value:
    shape, cut = node.outputs[0].shape, node.params
    bounds = {label: (cut["start"][i], cut["stop"][i], cut["step"][i]) for i, label in enumerate(c.out)}
    made = c._replace(node=node)
    for i, (x, own) in enumerate(zip(c.operands, c.labels, strict=True)):
        if any(label in bounds and shape[c.out.index(label)] != c.sizes[label] for label in own):
            ends = [bounds.get(label, (0, n, 1)) for label, n in zip(own, x.shape, strict=True)]
            start, stop, step = zip(*ends, strict=True)
            made = made.with_operand(i, make(node, "slice", x, start=start, stop=stop, step=step), own)
    return made.value()
