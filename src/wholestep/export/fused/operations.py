"""Functions as operations of a library: the results of each, first its value, then the residuals of its derivative."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wholestep.export.fused.forms import ATTENTIONS, FORMS, Form, NormForm, standardized, with_gain_and_bias
from wholestep.ir.graph import Value
from wholestep.primitives.attention import attention
from wholestep.primitives.attention_operands import usual_block
from wholestep.primitives.family import number_of
from wholestep.primitives.movement import reshape

Operation = Callable[[Sequence[Value]], Sequence[Value]]
"""The operands of an operation -> its results."""


def norm_results(batch: bool) -> Operation:
    """A norm over the last axis or over all but the second, with mean and 1 / sqrt(variance + eps) of each."""

    def results(xs: Sequence[Value]) -> Sequence[Value]:
        x, *parts, eps = xs
        along = 1 if batch else x.ndim - 1
        axes = tuple([i for i in range(x.ndim) if i != along]) if batch else (along,)
        mean, deviation, _ = standardized(x, axes, eps)
        shape = mean.shape if batch else (*mean.shape, 1)
        kept = [reshape(v, shape=shape) for v in (mean, 1 / deviation)]
        return [NormForm(len(parts)).write(axes, along, *xs), *kept]

    return results


def group_norm_results(xs: Sequence[Value]) -> Sequence[Value]:
    """A norm of groups of channels, the second axis, with mean and 1 / deviation of each; eps counts them."""
    x, *parts, eps = xs
    split = reshape(x, shape=(*eps.shape, x.type.size // eps.type.size))
    mean, deviation, unit = standardized(split, (2,), eps)
    return [with_gain_and_bias(reshape(unit, shape=x.shape), 1, parts), mean, 1 / deviation]


def attention_results(causal: bool, masked: bool) -> Operation:
    """Values mixed by attention of arrays [batch, heads, time, width], and the logarithm of each row's exponentials."""

    def results(xs: Sequence[Value]) -> Sequence[Value]:
        (q, k, v), mask, scale = xs[:3], xs[3:-1], number_of(xs[-1])
        shared = k.shape[1]
        groups, block = q.shape[1] // shared, usual_block(1)
        rows = reshape(q, shape=(q.shape[0], shared, groups, *q.shape[2:]))
        folds = [(1, 1) if m.shape[1] == 1 else (shared, groups) for m in mask]
        thin = [reshape(m, shape=(m.shape[0], *fold, *m.shape[2:])) for m, fold in zip(mask, folds, strict=True)]
        options = {"scale": float(scale), "causal": causal, "masked": masked, "dropout": 0.0, "block": block}
        out, lse = attention(rows, k, v, *thin, **options)
        return reshape(out, shape=q.shape), reshape(lse, shape=q.shape[:3])

    return results


def activation_results(form: Form) -> Operation:
    """A function of each number."""
    return lambda xs: [form.write(xs[0])]


OPERATIONS: dict[str, Operation] = {
    "layer_norm": norm_results(batch=False),
    "batch_norm": norm_results(batch=True),
    "group_norm": group_norm_results,
    **{name: attention_results(causal, masked) for name, causal, masked in ATTENTIONS},
    **{form.label: activation_results(form) for forms in FORMS.values() for form in forms},
}
"""The results of each operation by its label."""
RESULT_SLOPES = {form.label: form.result_slope for forms in FORMS.values() for form in forms if form.result_slope}
"""For functions whose derivative reads their result alone the slope as a function of that."""
READ_RESULT = frozenset((*RESULT_SLOPES, *[name for name, _, _ in ATTENTIONS]))
"""The functions whose derivative reads their result."""
