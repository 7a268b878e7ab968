"""Reports of trainings that went wrong: optimizers, micro-batches, dropout, shared weights, normalizations, losses."""

from __future__ import annotations

from typing import Any

import numpy as np

import wholestep as ws
from wholestep import nn, optim
from wholestep.errors import ParameterError
from wholestep_tools.audit.correctness.reports.report import Report


def trained(loss: Any, params: Any, optimizer: Any, batches: Any, **options: Any) -> Any:
    """The parameters after a call of a compiled step for each batch."""
    step = ws.compile(loss, params, optimizer=optimizer, batch=batches[0], **options)
    for batch in batches:
        step(batch)
    return step.params


def tokens(w: Any, batch: Any) -> Any:
    """The squared errors of tokens, weighted by each token's share of the total and summed over rows."""
    return np.mean(np.sum((batch["x"] * w - batch["y"]) ** 2 * batch["part"], axis=1))


def by_parts(x: Any, y: Any, counted: Any) -> Any:
    """A step on rows of unequal numbers of tokens, two rows at a time."""
    batch = {"x": x, "y": y, "part": counted * len(x) / np.sum(counted)}
    return trained(tokens, np.zeros(()), optim.sgd(0.1), [batch], microbatch=2)


def mean_of_means(w: Any, batch: Any) -> Any:
    """The mean over tokens that count, which is not the mean of such means over parts of a batch."""
    return np.sum((batch["x"] * w) ** 2 * batch["counted"]) / np.sum(batch["counted"])


def refused(x: Any, counted: Any) -> Any:
    """True if a loss that micro-batches would change is refused."""
    try:
        batch = {"x": x, "counted": counted}
        ws.compile(mean_of_means, np.ones(()), optimizer=optim.sgd(0.1), batch=batch, microbatch=2)
    except ParameterError:
        return np.array(True)
    return np.array(False)


def valley(w: Any, batch: Any) -> Any:
    """A quadratic loss whose gradient is w minus the batch."""
    return np.sum((w - batch) ** 2) / 2


def by_adam(batches: Any, eps: float, calls: int) -> Any:
    """Parameters after steps of Adam, some of them in each call."""
    parts = np.array_split(batches, calls)
    options = {"steps_per_call": len(parts[0])} if len(parts[0]) > 1 else {}
    given = [part if options else part[0] for part in parts]
    return trained(valley, np.zeros(3), optim.adam(0.1, eps=eps), given, **options)


def adam(batches: Any, eps: float) -> Any:
    """The same by the formulas of the paper."""
    w, m, v = np.zeros(3), np.zeros(3), np.zeros(3)
    for t, batch in enumerate(batches, 1):
        g = w - batch
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        w = w - 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + eps)
    return w


def dropped(w: Any, batch: Any, *, key: Any) -> Any:
    """A sum of which half is left out, computed again in the backward pass."""
    return np.sum(ws.checkpoint(lambda v: nn.dropout(v, 0.5, key))(w * batch))


def same_mask(w: Any) -> Any:
    """The difference of a loss and the sum of its gradients, which is zero where both have the same mask."""
    step = ws.compile(dropped, w, optimizer=optim.sgd(1.0), batch=np.ones(64))
    losses = [float(step(np.ones(64)).loss)]
    return np.array(losses[0] - np.sum(w - step.params))


def dropped_zeros(w: Any) -> Any:
    """The derivatives of dropout where all that it takes is zero."""
    return np.unique(-trained(dropped, w, optim.sgd(1.0), [np.ones(64)]))


def noisy(w: Any, batch: Any, *, key: Any) -> Any:
    """A loss with noise of its own."""
    return np.sum((w * batch) ** 2) + ws.random.uniform(key, ())


def draws(w: Any) -> Any:
    """The number of different losses of steps that see the same batch and change nothing."""
    step = ws.compile(noisy, w, optimizer=optim.sgd(0.0), batch=np.ones(2))
    return np.array(len({float(step(np.ones(2)).loss) for _ in range(5)}))


def there_and_back(w: Any, batch: Any) -> Any:
    """A product with a matrix and with the same one transposed."""
    return np.sum(batch @ w @ w.T)


def modulated(table: Any, batch: Any) -> Any:
    """Two normalizations, one after the other, with scales and shifts from one table."""
    first, second, third, fourth = np.split(table, 4)
    h = normalized(batch) * (1 + first) + second
    return np.sum(normalized(h) * (1 + third) + fourth * batch)


def normalized(x: Any) -> Any:
    """Rows of mean 0 and variance 1."""
    off = x - np.mean(x, axis=1, keepdims=True)
    return off / np.sqrt(np.mean(off**2, axis=1, keepdims=True) + 1e-5)


def slopes_of_modulated(table: Any, x: Any) -> Any:
    """The gradient of that, by hand."""
    first, second, third, _ = np.split(table, 4)
    a = normalized(x)
    h = a * (1 + first) + second
    b = normalized(h)
    scale = np.sqrt(np.var(h, axis=1, keepdims=True) + 1e-5)
    g = np.broadcast_to(1 + third, x.shape)
    back = (g - np.mean(g, axis=1, keepdims=True) - b * np.mean(g * b, axis=1, keepdims=True)) / scale
    return np.concatenate([np.sum(back * a, axis=0), np.sum(back, axis=0), np.sum(b, axis=0), np.sum(x, axis=0)])


def reciprocal_of_normalized(x: Any) -> Any:
    """Reciprocals of normalized rows."""
    return np.reciprocal(np.abs(nn.layer_norm(x, eps=1e-5)) + 1e-6)


def evaluated(x: Any) -> Any:
    """Running statistics, an activation, and statistics of groups, in evaluation."""
    h = (x - 0.0) / np.sqrt(1.0 + 1e-5)
    return nn.group_norm(nn.elu(h), 3, eps=1e-5)


def running_variance(x: Any) -> Any:
    """The running variance after one step."""
    model = nn.BatchNorm(2, momentum=0.1, dtype=np.float64)
    step = ws.compile(lambda model, batch: np.sum(model(batch) ** 2), model, optimizer=optim.sgd(0.0), batch=x)
    step(x)
    return step.model.var


def clipped(a: Any, b: Any) -> Any:
    """Parameters after a step along gradients, cut to a norm of 1, that are the batch."""
    optimizer = optim.chain(optim.clip_by_global_norm(1.0), optim.sgd(1.0))
    start = {"a": np.zeros(2), "b": np.zeros(1)}

    def loss(p: Any, batch: Any) -> Any:
        return np.sum(p["a"] * batch["a"]) + np.sum(p["b"] * batch["b"])

    found = trained(loss, start, optimizer, [{"a": a, "b": b}])
    return found["a"], found["b"]


def smoothed(logits: Any, labels: Any) -> Any:
    """A cross-entropy with smooth labels, one row of which is to be ignored."""
    return nn.cross_entropy(logits, labels, label_smoothing=0.2, ignore_index=-100)


def smoothed_by_hand(logits: Any, labels: Any) -> Any:
    """The same of the rows that count alone."""
    x, y = logits[labels != -100], labels[labels != -100]
    logs = x - np.log(np.sum(np.exp(x), axis=1, keepdims=True))
    return -np.mean(0.8 * logs[np.arange(len(y)), y] + 0.2 * np.mean(logs, axis=1))


X, Y = np.cos(np.arange(15.0)).reshape(5, 3), np.sin(np.arange(15.0)).reshape(5, 3)
COUNTED = np.array([[1.0, 1, 1], [1, 0, 0], [1, 1, 0], [0, 0, 0], [1, 0, 0]])
BATCHES = np.cos(np.arange(18.0)).reshape(6, 3) + 0.1
TABLE = np.sin(np.arange(12.0)) / 2
WIDE = np.cos(np.arange(24.0) ** 1.5).reshape(4, 6)
SIGNAL = np.cos(np.arange(48.0)).reshape(2, 6, 4) * 2
ROWS = np.array([[1.0, 5.0], [2.0, 5.0], [4.0, 6.0]])
LABELS = np.array([2, -100, 0, 1])
U = np.sum(X, axis=0)
GROUPS = np.where(SIGNAL > 0, SIGNAL / np.sqrt(1 + 1e-5), np.expm1(SIGNAL / np.sqrt(1 + 1e-5))).reshape(2, 3, 8)
REPORTS = (
    Report(
        "huggingface/transformers #35203",
        "micro-batches of unequal numbers of tokens count alike",
        by_parts,
        (X, Y, COUNTED),
        np.array(0.2 * np.sum(X * Y * COUNTED) / np.sum(COUNTED)),
        True,
    ),
    Report(
        "huggingface/transformers #34191",
        "the mean over tokens becomes a mean of means without a word",
        refused,
        (X[:4], COUNTED[:4]),
        np.array(True),
        True,
    ),
    Report(
        "tensorflow #35102",
        "the epsilon of Adam is corrected as if it were a moment",
        lambda x: by_adam(x, 0.1, 6),
        (BATCHES,),
        adam(BATCHES, 0.1),
        True,
    ),
    Report(
        "karpathy/convnetjs #70",
        "the moments of Adam are multiplied by their corrections",
        lambda x: by_adam(x, 1e-8, 6),
        (BATCHES,),
        adam(BATCHES, 1e-8),
        True,
    ),
    Report(
        "pytorch #185382",
        "from the third step on a loop of steps of Adam counts wrongly",
        lambda x: by_adam(x, 1e-8, 2),
        (BATCHES,),
        adam(BATCHES, 1e-8),
        True,
    ),
    Report(
        "openai/guided-diffusion #167",
        "dropout that is computed again in the backward pass draws another mask",
        same_mask,
        (np.ones(64),),
        np.array(0.0),
        True,
    ),
    Report(
        "kaldi-asr/kaldi #3890",
        "zeros that were dropped have the derivative of those that were not",
        dropped_zeros,
        (np.zeros(64),),
        np.array([0.0, 2.0]),
        True,
    ),
    Report(
        "tinygrad #9108", "each call of a compiled function draws the same", draws, (np.ones(2),), np.array(5), True
    ),
    Report(
        "NVIDIA/TransformerEngine #3552",
        "of two uses of one weight the gradient of one is lost",
        lambda w: -trained(there_and_back, w, optim.sgd(1.0), [X]) + w,
        (Y[:3, :2].copy(),),
        np.outer(U, np.sum(Y[:3, :2], axis=0)) + np.outer(np.ones(3), Y[:3, :2].T @ U),
        True,
    ),
    Report(
        "pytorch #193061",
        "of two normalizations that share a table one gets the gradient of neither",
        lambda w: w - trained(modulated, w, optim.sgd(1.0), [X]),
        (TABLE,),
        slopes_of_modulated(TABLE, X),
        True,
    ),
    Report(
        "pytorch #186577",
        "a normalization and a reciprocal are wrong together and right apart",
        reciprocal_of_normalized,
        (WIDE,),
        1 / (np.abs((WIDE - WIDE.mean(1, keepdims=True)) / np.sqrt(WIDE.var(1, keepdims=True) + 1e-5)) + 1e-6),
    ),
    Report(
        "pytorch #181696",
        "normalizations that follow each other are folded into wrong constants",
        evaluated,
        (SIGNAL,),
        ((GROUPS - GROUPS.mean(2, keepdims=True)) / np.sqrt(GROUPS.var(2, keepdims=True) + 1e-5)).reshape(2, 6, 4),
    ),
    Report(
        "tenstorrent/tt-metal #55438",
        "the running variance is that of a population",
        running_variance,
        (ROWS,),
        0.9 + 0.1 * np.var(ROWS, axis=0, ddof=1),
        True,
    ),
    Report(
        "huggingface/transformers #614",
        "each group of gradients is clipped to the norm that all of them are to have",
        clipped,
        (np.array([3.0, 0.0]), np.array([4.0])),
        (np.array([-0.6, 0.0]), np.array([-0.8])),
        True,
    ),
    Report(
        "pytorch #73205",
        "rows that are to be ignored count in the smooth part of a loss",
        smoothed,
        (WIDE, LABELS),
        smoothed_by_hand(WIDE, LABELS),
    ),
)
