"""Each operator of PyTorch that is covered gives PyTorch's numbers, dtypes and gradients."""

import numpy as np
import pytest
from tests.interop.torch_samples import Dtype, S

import wholestep as ws
from wholestep import tree
from wholestep.interop.torch.draws import DRAWS
from wholestep.interop.torch.operators import CONTROL, OPERATORS

torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
pytest.importorskip("torch.ao.quantization.fx._decomposed")  # defines the operators of quantised programs

WITHOUT_ORACLE = {
    "_to_dtype": "_to_copy",
    "to": "_to_copy",
    "convert_element_type": "_to_copy",
    "empty": "zeros",
    "empty_permuted": "zeros",
    "empty_strided": "zeros",
    "empty_like": "zeros_like",
    "new_empty": "new_zeros",
    "cholesky": "linalg_cholesky_ex",
    "cholesky_solve": "tests of whole models",
    "cholesky_inverse": "test_an_inverse_by_a_factor_has_the_gradient_of_pytorch",
    "_embedding_bag_forward_only": "_embedding_bag",
    "inverse": "linalg_inv_ex",
    "linalg_det": "_linalg_det",
    "adaptive_max_pool2d": "its second result is not covered",
    "adaptive_max_pool3d": "its second result is not covered",
    "max_pool1d_with_indices": "max_pool2d_with_indices",
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": "fake_quantize_per_tensor_affine_cachemask",
    "choose_qparams": "tests of whole models",
    "_assert_async": "a check",
    "grouped_mm_fallback": "_grouped_mm",
    "numel": "sizes",
    "sym_numel": "sizes",
}
"""Operators without an oracle of their own name, or without defined values, each with the test in its place."""
UNIQUE = {"linalg_qr", "_linalg_svd", "_linalg_eigh", "linalg_eig"}
"""Operators whose results are known but for signs: absolute values are compared."""
FIXED = {
    "soft_margin_loss": 1,
    "nll_loss_forward": 1,
    "_native_batch_norm_legit_no_training": 2,
    "_native_batch_norm_legit_functional": 2,
    "fake_quantize_per_channel_affine_cachemask": 1,
    "fractional_max_pool2d": 1,
    "fractional_max_pool3d": 1,
}
"""The number of floating arguments, counted from the last, by which PyTorch does not differentiate."""
DEQUANTIZED = {"dequantize_per_channel", "dequantize_per_tensor"}
"""Operators without a derivative in PyTorch."""
ROUGH = {
    "special_zeta": 1e-4,
    "polygamma": 1e-4,
    "special_ndtri": 1e-4,
    "digamma": 3e-5,
    "_linalg_svd": 1e-4,
    "_linalg_eigh": 1e-4,
}
SAMPLES = [(name, number) for name, samples in S.items() for number in range(len(samples))]


def aten(name):
    """PyTorch's operator of a name."""
    packet, _, overload = name.partition(".")
    home = torch.ops.quantized_decomposed if packet.partition("_")[0] in ("quantize", "dequantize") else torch.ops.aten
    found = getattr(home, packet)
    return getattr(found, overload) if overload else found


def theirs(x):
    """An argument as PyTorch takes it."""
    if isinstance(x, np.ndarray | np.generic):
        return torch.tensor(x)
    if isinstance(x, Dtype):
        return getattr(torch, x)
    return [theirs(item) for item in x] if isinstance(x, list) else x


def ours(x):
    if isinstance(x, Dtype):
        return np.dtype(str(x))
    return [ours(item) for item in x] if isinstance(x, list) else x


def outs(x):
    """The results of an operator as a list; one that is not covered is None."""
    return list(x) if isinstance(x, tuple | list) else [x]


def expected_of(name, args, options):
    """PyTorch's results, and the gradients of a weighted sum of them; None without a derivative."""
    leaves, structure = tree.flatten((args, options))
    given = [theirs(x) for x in leaves]
    floats = [x for x in given if isinstance(x, torch.Tensor) and x.is_floating_point()]
    floats = [x.requires_grad_() for x in floats[: max(len(floats) - FIXED.get(name, 0), 1)] if name not in DEQUANTIZED]
    rebuilt, named = tree.unflatten(structure, given)
    made = outs(aten(name)(*rebuilt, **named))
    weighted = [out for out in made if isinstance(out, torch.Tensor) and out.is_floating_point() and out.requires_grad]
    if not floats or not weighted:
        return made, None
    total = sum(
        (out * torch.linspace(0.5, 1.5, out.numel(), dtype=out.dtype).reshape(out.shape)).sum() for out in weighted
    )
    try:
        grads = torch.autograd.grad(total, floats, allow_unused=True)
    except RuntimeError:
        return made, None
    kept = [isinstance(out, torch.Tensor) and out.is_floating_point() and out.requires_grad for out in made]
    return made, (
        [np.zeros(x.shape) if g is None else g.numpy(force=True) for x, g in zip(floats, grads, strict=True)],
        kept,
    )


@pytest.mark.parametrize(("name", "number"), SAMPLES, ids=[f"{name}-{number}" for name, number in SAMPLES])
def test_an_operator_is_that_of_pytorch(name, number):
    args, options = S[name][number]
    wanted, grads = expected_of(name, args, options)
    leaves, structure = tree.flatten((args, options))
    places = [k for k, x in enumerate(leaves) if isinstance(x, np.ndarray | np.generic) and x.dtype.kind == "f"]

    def run(*floats):
        new = list(leaves)
        for k, x in zip(places, floats, strict=True):
            new[k] = x
        positional, named = tree.unflatten(structure, [ours(x) for x in new])
        return outs(OPERATORS[name](*positional, **named))

    given = [np.asarray(leaves[k]) for k in places]
    found = run(*given)
    rough = ROUGH.get(name, 1e-5)
    for x, y in [pair for pair in zip(found, wanted, strict=True) if pair[0] is not None]:
        agrees(
            name,
            np.asarray(x),
            y.detach().resolve_conj().numpy() if isinstance(y, torch.Tensor) else np.asarray(y),
            rough,
        )
    if grads is None:
        return
    slopes, kept = grads

    def total(*floats):
        chosen = [x for x, k in zip(run(*floats), kept, strict=True) if k and x is not None]
        return sum(np.sum(x * np.linspace(0.5, 1.5, x.size).astype(x.dtype).reshape(x.shape)) for x in chosen)

    with np.errstate(over="ignore"):
        made = ws.grad(total, argnums=tuple(range(len(given))))(*given)
    for x, y in zip(made[: len(slopes)], slopes, strict=True):
        np.testing.assert_allclose(
            np.asarray(x), y, rtol=30 * rough, atol=30 * rough * max(1, np.abs(y).max(initial=0))
        )


def agrees(name, x, y, rough):
    """Assert that two arrays have one shape and dtype, and nearly the same numbers."""
    assert (x.shape, x.dtype) == (y.shape, y.dtype)
    if name in UNIQUE:
        x, y = np.abs(x), np.abs(y)
    if y.dtype.kind in "fc":
        np.testing.assert_allclose(x, y, rtol=rough, atol=rough * max(1, np.abs(y[np.isfinite(y)]).max(initial=0)))
    else:
        np.testing.assert_array_equal(x, y)


def test_every_operator_has_a_sample():
    assert set(OPERATORS) - set(S) - set(DRAWS) - set(CONTROL) - set(WITHOUT_ORACLE) == set()
    assert set(S) <= set(OPERATORS)
