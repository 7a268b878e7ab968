"""Reports of derivatives that are nan or wrong at zeros, ties, bounds and infinities."""

from __future__ import annotations

from typing import Any

import numpy as np

import wholestep as ws
from wholestep import nn
from wholestep_tools.audit.correctness.reports.report import Report

INF = np.inf


def squared_norm(x: Any) -> Any:
    """The square of a norm, which is smooth where the norm is not."""
    return np.linalg.norm(x) ** 2


def bell(x: Any) -> Any:
    """A bell curve of a norm."""
    return np.exp(-1.0 * np.linalg.norm(x) ** 2)


def scaled_norm(a: Any, x: Any) -> Any:
    """The norm of a scaled vector."""
    return np.linalg.norm(a * x)


def between_itself(x: Any) -> Any:
    """A number cut off at zero and at itself."""
    return np.clip(x, 0.0, x)


def clipped_mean(x: Any) -> Any:
    """A weighted mean, so that the incoming cotangents are not one."""
    return np.mean(np.clip(x, -1.0, 1.0) * np.array([-1.0, 2.0, 4.0, 8.0]))


def log_of_none(x: Any) -> Any:
    """The sum of probabilities that are all zero, as logarithms."""
    return nn.logsumexp(np.stack([np.full_like(x, -INF), -INF + x]))


def masked_log_sum(x: Any) -> Any:
    """The logarithm of a sum of exponentials over those that a mask lets in, the others being large."""
    kept = np.array([True, False])
    return nn.logsumexp(np.where(kept, x, -INF))


def log_sigmoid(x: Any) -> Any:
    """The logarithm of a sigmoid, by a maximum and an exponential of minus an absolute value."""
    return -np.sum(np.maximum(-x, 0.0) + np.log1p(np.exp(-np.abs(x))))


def smaller_of_itself(x: Any) -> Any:
    """The larger of an array and of another that equals it in places."""
    return np.sum(np.maximum(x, np.array([1.0, 5.0, 3.0])) * np.array([2.0, 4.0, 6.0]))


def silu(x: Any) -> Any:
    """A number times its sigmoid."""
    return np.sum(x / (1 + np.exp(-x)))


def magnitudes(x: Any) -> Any:
    """The sum of absolute values of complex numbers."""
    return np.sum(np.abs(x))


def windows(x: Any) -> Any:
    """The largest of each two neighbours."""
    return np.sum(np.maximum(x[:-1], x[1:]))


Z = 5.6843e-14 + 1e-13j
REPORTS = (
    Report(
        "HIPS/autograd #586",
        "the gradient of a squared norm is nan at zero",
        ws.grad(squared_norm),
        (np.zeros(3),),
        np.zeros(3),
    ),
    Report(
        "HIPS/autograd #183", "a smooth function of a norm has nan at zero", ws.grad(bell), (np.zeros(3),), np.zeros(3)
    ),
    Report(
        "pytorch #2421", "the gradient of a norm is nan at zero", ws.grad(np.linalg.norm), (np.zeros(2),), np.zeros(2)
    ),
    Report(
        "jax #26248",
        "the norm of a scaled zero vector has nan for a derivative in the scale",
        ws.grad(scaled_norm),
        (1.3, np.zeros(2)),
        0.0,
    ),
    Report(
        "pytorch #27134",
        "the derivative of a power in its exponent is nan where the base is zero",
        ws.grad(lambda b, a: np.sum(a**b)),
        (np.ones(2), np.array([0.0, 2.0])),
        np.array([0.0, 2 * np.log(2.0)]),
    ),
    Report(
        "pytorch #8940",
        "the derivative of a power of zero is nan at zero",
        ws.grad(lambda x: np.sum(x**0.0)),
        (np.array([0.0, 1.0]),),
        np.zeros(2),
    ),
    Report(
        "mlx #628",
        "a power of a difference that is zero has nan for a gradient",
        ws.grad(lambda a, b: 123 * np.sum((a - b) ** b), (0, 1)),
        (np.ones(2), np.ones(2)),
        (np.full(2, 123.0), np.full(2, -123.0)),
    ),
    Report(
        "pytorch #56734",
        "of two equal numbers each gets the whole gradient of the larger one, or the same one always",
        ws.grad(smaller_of_itself),
        (np.array([1.0, 2.0, 7.0]),),
        np.array([1.0, 0.0, 6.0]),
    ),
    Report(
        "Theano #4568",
        "elements that tie for the largest get the whole gradient each",
        ws.grad(np.max),
        (np.ones(2),),
        np.full(2, 0.5),
    ),
    Report(
        "pytorch #53989",
        "the gradient of sinc is nan at zero",
        ws.grad(lambda x: np.sum(np.sinc(x))),
        (np.array([0.0, 0.5]),),
        np.array([0.0, -4 / np.pi]),
    ),
    Report(
        "jax #34139",
        "the gradient of sinc close to zero has no right digit",
        ws.grad(lambda x: 1e6 * np.sum(np.sinc(x))),
        (np.array([1e-6, 1e-4, -1e-5]),),
        1e6 * -(np.pi**2) / 3 * np.array([1e-6, 1e-4, -1e-5]) * (1 - np.pi**2 / 10 * np.array([1e-12, 1e-8, 1e-10])),
    ),
    Report(
        "jax #6811",
        "the sum of probabilities that are all zero has nan for a gradient",
        ws.grad(log_of_none),
        (1.0,),
        0.0,
    ),
    Report(
        "jax #23842",
        "a masked number reaches the gradient of a logarithm of a sum of exponentials as nan",
        ws.grad(masked_log_sum),
        (np.array([0.0, 1000.0]),),
        np.array([1.0, 0.0]),
    ),
    Report(
        "pytorch #4320",
        "the gradient of a standard deviation is nan where all elements are equal",
        ws.grad(lambda x: np.mean(np.std(x, axis=0))),
        (np.ones((4, 3)),),
        np.zeros((4, 3)),
    ),
    Report(
        "tensorflow #56830",
        "the standard deviation of one element has nan for a gradient",
        ws.grad(lambda x: np.sum(np.std(x, axis=0, keepdims=True))),
        (np.array([-0.83]),),
        np.zeros(1),
    ),
    Report("HIPS/autograd #100", "the gradient of an absolute value is nan at zero", ws.grad(np.abs), (0.0,), 0.0),
    Report(
        "FluxML/Zygote.jl #1472",
        "the gradient of the absolute value of a complex zero is nan",
        ws.grad(magnitudes),
        (np.array([0j, 3 + 4j]),),
        np.array([0j, 0.6 + 0.8j]),
    ),
    Report(
        "pytorch #96543",
        "the gradient of the absolute value of a tiny complex number is nan",
        ws.grad(magnitudes),
        (np.array([0j, -1.0568e-23], np.complex64),),
        np.array([0j, -1.0], np.complex64),
    ),
    Report(
        "pytorch #98276",
        "the gradient of the angle of a tiny complex number is nan",
        ws.grad(lambda z: 1e-12 * np.angle(z)),
        (Z,),
        1e-12 * (-Z.imag + 1j * Z.real) / abs(Z) ** 2,
    ),
    Report(
        "tinygrad #17758",
        "the derivative of the inverse hyperbolic sine is zero at zero",
        ws.grad(lambda x: np.sum(np.arcsinh(x))),
        (np.array([0.0, -0.0, 0.75]),),
        np.array([1.0, 1.0, 0.8]),
    ),
    Report(
        "huggingface/candle #2083",
        "the derivative of silu is wrong at zero",
        ws.grad(silu),
        (np.zeros(2),),
        np.full(2, 0.5),
    ),
    Report(
        "jax #2140",
        "the derivative of a log-sigmoid is zero at zero",
        ws.grad(log_sigmoid),
        (np.zeros(1),),
        np.full(1, 0.5),
    ),
    Report("Theano #633", "a number cut off at itself has no derivative", ws.grad(between_itself), (5.0,), 1.0),
    Report(
        "elixir-nx/nx #1779",
        "clipping squares the gradient that comes back",
        ws.grad(clipped_mean),
        (np.array([0.5, 2.0, -0.5, -3.0]),),
        np.array([-0.25, 0.0, 1.0, 0.0]),
    ),
    Report(
        "jax #764",
        "the gradient of tanh makes invalid values where the argument is large",
        ws.grad(lambda x: np.sum(np.tanh(x))),
        (np.array([-800.0, 0.0, 800.0]),),
        np.array([0.0, 1.0, 0.0]),
    ),
    Report(
        "tracel-ai/burn #5373",
        "a large argument makes softplus infinite and its gradient nan",
        ws.value_and_grad(lambda x: np.sum(nn.softplus(x))),
        (np.array([20.0, 50.0, 1000.0, -1000.0]),),
        (1070.0 + np.log1p(np.exp(-20.0)), np.array([1 / (1 + np.exp(-20.0)), 1.0, 1.0, 0.0])),
    ),
    Report(
        "huggingface/candle #1722",
        "the gradient of a sigmoid is nan at large negative arguments",
        ws.grad(lambda x: np.sum(nn.sigmoid(x))),
        (np.array([-548.3162, -800.0, 0.0, 548.3162]),),
        np.array([0.0, 0.0, 0.25, 0.0]),
    ),
    Report(
        "ahrefs/ocannl #512",
        "an element that is the largest of two overlapping windows gets the gradient of one",
        ws.grad(windows),
        (np.array([5.0, 3.0, 1.0, 2.0, 5.0]),),
        np.array([1.0, 1.0, 0.0, 1.0, 1.0]),
    ),
)
