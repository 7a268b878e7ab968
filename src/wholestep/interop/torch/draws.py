"""Random numbers of PyTorch's programs, drawn by our keys: other numbers than PyTorch's, of the same distributions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep import numpy as wnp, random
from wholestep.frontend.marks import stop_gradient
from wholestep.interop.handlers import Handlers
from wholestep.interop.torch.promotion import FLOAT, alike

DRAWS = Handlers()
entry = DRAWS.entry


@entry("rand")
def rand(shape: Sequence[Any], *, key: Any, dtype: Any = None, **where: Any) -> Any:
    return random.uniform(key, tuple(shape), dtype or FLOAT)


@entry("randn")
def randn(shape: Sequence[Any], *, key: Any, dtype: Any = None, **where: Any) -> Any:
    return random.normal(key, tuple(shape), dtype or FLOAT)


@entry("rand_like")
def rand_like(x: Any, *, key: Any, dtype: Any = None, **where: Any) -> Any:
    return random.uniform(key, x.shape, dtype or x.dtype)


@entry("randn_like")
def randn_like(x: Any, *, key: Any, dtype: Any = None, **where: Any) -> Any:
    return random.normal(key, x.shape, dtype or x.dtype)


@entry("randint")
def randint(high: int, shape: Sequence[Any], *, key: Any, dtype: Any = None, **where: Any) -> Any:
    return random.randint(key, tuple(shape), 0, high, dtype or np.int64)


@entry("randint.low")
def randint_from(low: int, high: int, shape: Sequence[Any], *, key: Any, dtype: Any = None, **where: Any) -> Any:
    return random.randint(key, tuple(shape), low, high, dtype or np.int64)


@entry("randint_like")
def randint_like_below(x: Any, high: int, *, key: Any, dtype: Any = None, **where: Any) -> Any:
    return random.randint(key, x.shape, 0, high, dtype or x.dtype)


@entry("randint_like.low_dtype")
def randint_like(x: Any, low: int, high: int, *, key: Any, dtype: Any = None, **where: Any) -> Any:
    return random.randint(key, x.shape, low, high, dtype or x.dtype)


@entry("randperm")
def randperm(n: int, *, key: Any, dtype: Any = None, **where: Any) -> Any:
    return random.permutation(key, n).astype(dtype or np.int64)


@entry("bernoulli")
def bernoulli(x: Any, *, key: Any, generator: Any = None) -> Any:
    return (random.uniform(key, x.shape, x.dtype) < x).astype(x.dtype)


@entry("bernoulli.p")
def bernoulli_like(x: Any, p: float = 0.5, *, key: Any, generator: Any = None) -> Any:
    return (random.uniform(key, x.shape, FLOAT) < np.float32(p)).astype(x.dtype)


@entry("uniform")
def uniform(x: Any, low: float = 0, high: float = 1, *, key: Any, generator: Any = None) -> Any:
    return random.uniform(key, x.shape, x.dtype, low, high)


@entry("normal_functional")
def normal(x: Any, mean: float = 0, std: float = 1, *, key: Any, generator: Any = None) -> Any:
    return random.normal(key, x.shape, x.dtype) * np.asarray(std, x.dtype) + np.asarray(mean, x.dtype)


@entry("normal")
def normal_around(
    mean: Any, std: Any = 1, shape: Sequence[Any] | None = None, *, key: Any, dtype: Any = None, **where: Any
) -> Any:
    a, b = alike(mean, std)
    found = tuple(shape) if shape is not None else wnp.broadcast_shapes(a.shape, b.shape)
    made = random.normal(key, found, dtype or a.dtype)
    return stop_gradient(made * b.astype(made.dtype) + a.astype(made.dtype))


@entry("log_normal")
def log_normal(x: Any, mean: float = 1, std: float = 2, *, key: Any, generator: Any = None) -> Any:
    return wnp.exp(normal(x, mean, std, key=key))


@entry("cauchy")
def cauchy(x: Any, median: float = 0, width: float = 1, *, key: Any, generator: Any = None) -> Any:
    return random.cauchy(key, x.shape, x.dtype) * np.asarray(width, x.dtype) + np.asarray(median, x.dtype)


@entry("geometric")
def geometric(x: Any, p: float, *, key: Any, generator: Any = None) -> Any:
    return random.geometric(key, p, x.shape).astype(x.dtype)


@entry("poisson")
def poisson(x: Any, *, key: Any, generator: Any = None) -> Any:
    return random.poisson(key, x).astype(x.dtype)


@entry("binomial")
def binomial(count: Any, p: Any, *, key: Any, generator: Any = None) -> Any:
    return random.binomial(key, count.astype(np.int64), p).astype(p.dtype)


@entry("_standard_gamma")
def standard_gamma(x: Any, *, key: Any, generator: Any = None) -> Any:
    return random.gamma(key, x, dtype=x.dtype)


@entry("_sample_dirichlet")
def sample_dirichlet(x: Any, *, key: Any, generator: Any = None) -> Any:
    return random.dirichlet(key, x, dtype=x.dtype)


@entry("exponential")
def exponential(x: Any, rate: float = 1, *, key: Any, generator: Any = None) -> Any:
    return random.exponential(key, x.shape, x.dtype) / np.asarray(rate, x.dtype)


@entry("multinomial")
def multinomial(x: Any, count: int, replacement: bool = False, *, key: Any, generator: Any = None) -> Any:
    logits = wnp.log(x)
    if replacement:
        drawn = random.categorical(key, logits[..., None, :], axis=-1, shape=(*x.shape[:-1], count))
        return drawn.astype(np.int64)
    noisy = logits + random.gumbel(key, x.shape, x.dtype)
    return wnp.argsort(-noisy, axis=-1)[..., :count]
