"""The law of factorizations in C: they are those of NumPy, of ill-conditioned matrices too, and fail as LAPACK."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from tests.native.c_program import COMPILER, CProgram
from tests.native.steps import gaussian

import wholestep as ws
from wholestep import tree
from wholestep.scipy import linalg
from wholestep_tools.drawn.c_library import CLibrary

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
RNG = np.random.default_rng(5)
SIZE = 14
HILBERT = 1 / (np.arange(SIZE)[:, None] + np.arange(SIZE) + 1.0)
"""Its condition number is 1e17, so that its solutions and eigenvectors depend on rounding errors."""
GRADED = RNG.normal(size=(SIZE, SIZE)) * 10.0 ** -np.arange(SIZE)
PLAIN = RNG.normal(size=(SIZE, SIZE))
MATRICES = {
    "plain": PLAIN,
    "complex": PLAIN + 1j * RNG.normal(size=(SIZE, SIZE)),
    "graded": GRADED,
    "hilbert": HILBERT,
    "of_rank_one": np.outer(PLAIN[0], PLAIN[1]),
    "zero": np.zeros((5, 5)),
    "large": PLAIN * 1e200,
    "stack": RNG.normal(size=(2, 7, 7)),
}


def in_c(folder: Path, programs: dict[str, tuple[Any, tuple[Any, ...]]]) -> dict[str, Any]:
    """The results of matrix programs whose factorizations are formulas in C."""
    graphs = {name: ws.trace(f)(*args) for name, (f, args) in programs.items()}
    library = CLibrary(graphs, folder)
    assert all(library.formulas(name) for name in graphs)
    return {name: library(name, args) for name, (_, args) in programs.items()}


def adjoint(x: Any) -> Any:
    return np.swapaxes(x.conj(), -1, -2)


def close(got: Any, want: Any, scale: Any = 1.0) -> None:
    """Assert equality up to 1e-12 of the scale."""
    np.testing.assert_allclose(got / scale, want / scale, rtol=0, atol=1e-12)


def test_singular_values_and_vectors(tmp_path: Path) -> None:
    shapes = {name: a for name, a in MATRICES.items()} | {"tall": PLAIN[:, :5], "wide": PLAIN[:4]}
    programs: dict[str, Any] = {}
    for name, a in shapes.items():
        for full in (False, True):
            programs[f"{name}_{full}"] = (lambda x, full=full: tuple(np.linalg.svd(x, full_matrices=full)), (a,))
    found = in_c(tmp_path, programs)
    for name, a in shapes.items():
        scale = np.abs(a).max() * SIZE or 1.0
        for full in (False, True):
            u, s, vh = found[f"{name}_{full}"]
            k = s.shape[-1]
            wanted = np.linalg.svd(a, full_matrices=full)
            assert [x.shape for x in (u, s, vh)] == [x.shape for x in wanted]
            close(s, wanted[1], scale)
            close((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a, scale)
            close(adjoint(u) @ u, np.broadcast_to(np.eye(u.shape[-1]), (*u.shape[:-2], u.shape[-1], u.shape[-1])))
            close(vh @ adjoint(vh), np.broadcast_to(np.eye(vh.shape[-2]), (*vh.shape[:-2], vh.shape[-2], vh.shape[-2])))


def test_eigenvalues_and_vectors_of_hermitian_matrices(tmp_path: Path) -> None:
    matrices = {name: (a + adjoint(a)) / 2 for name, a in MATRICES.items()}
    found = in_c(tmp_path, {name: (lambda x: tuple(np.linalg.eigh(x)), (a,)) for name, a in matrices.items()})
    for name, a in matrices.items():
        w, v = found[name]
        scale = np.abs(a).max() * SIZE or 1.0
        close(w, np.linalg.eigvalsh(a), scale)
        close(a @ v, v * w[..., None, :], scale)
        close(adjoint(v) @ v, np.broadcast_to(np.eye(v.shape[-1]), v.shape))


def test_eigenvalues_and_vectors_of_any_matrix(tmp_path: Path) -> None:
    matrices = MATRICES | {"jordan": np.diag(np.ones(4), 1) + 2 * np.eye(5), "turn": np.roll(np.eye(6), 1, 0)}
    found = in_c(tmp_path, {name: (lambda x: tuple(np.linalg.eig(x)), (a,)) for name, a in matrices.items()})
    for name, a in matrices.items():
        w, v = found[name]
        scale = np.abs(a).max() * SIZE or 1.0
        close((a / scale) @ v, v * (w / scale)[..., None, :])
        close(np.linalg.norm(v, axis=-2), np.ones(v.shape[:-1]))
        # The eigenvalues near zero of a defective matrix are accurate to a root of the rounding error only.
        if name not in ("of_rank_one", "hilbert"):
            wanted = np.linalg.eig(a)[0]
            apart = np.abs(w[..., :, None] - wanted[..., None, :]) / scale
            assert apart.min(-1).max() < 1e-12 and apart.min(-2).max() < 1e-12


def test_complex_schur_forms(tmp_path: Path) -> None:
    matrices = {name: a + 0j for name, a in MATRICES.items()}
    found = in_c(tmp_path, {name: (linalg.schur, (a,)) for name, a in matrices.items() if a.ndim == 2})
    for name, (t, z) in found.items():
        scale = np.abs(matrices[name]).max() * SIZE or 1.0
        close(z @ (t / scale) @ adjoint(z), matrices[name] / scale)
        close(adjoint(z) @ z, np.eye(z.shape[-1]))
        assert not np.tril(t, -1).any()
        top = np.take_along_axis(z, np.abs(z).argmax(0)[None], 0)
        close(top, np.abs(top))


def test_square_roots_and_sylvester_equations(tmp_path: Path) -> None:
    regular = {name: MATRICES[name] for name in ("plain", "complex", "graded", "stack")}
    positive = {name: a @ adjoint(a) + np.eye(a.shape[-1]) for name, a in regular.items()}
    programs: dict[str, Any] = {}
    for name, a in positive.items():
        programs[f"sqrtm_{name}"] = (linalg.sqrtm, (a,)) if a.ndim == 2 else (ws.vmap(linalg.sqrtm), (a,))
        solve = linalg.solve_sylvester if a.ndim == 2 else ws.vmap(linalg.solve_sylvester)
        programs[f"sylvester_{name}"] = (solve, (a, a[..., :3, :3], regular[name][..., :3]))
    programs["large"] = (linalg.sqrtm, (PLAIN @ PLAIN.T * 1e200,))
    found = in_c(tmp_path, programs)
    for name, a in positive.items():
        root, x = found[f"sqrtm_{name}"][0], found[f"sylvester_{name}"][0]
        close(root @ root, a, np.abs(a).max() * SIZE)
        close(a @ x + x @ a[..., :3, :3], regular[name][..., :3])
    close(found["large"][0] / 1e100, scipy.linalg.sqrtm(PLAIN @ PLAIN.T).real, SIZE)


def test_a_root_that_is_not_real_and_a_singular_equation_fail(tmp_path: Path) -> None:
    programs = {
        "sqrtm": (linalg.sqrtm, (-np.eye(2),)),
        "sylvester": (linalg.solve_sylvester, (np.eye(2), -np.eye(2), np.ones((2, 2)))),
        "eig": (lambda x: tuple(np.linalg.eig(x)), (np.full((2, 2), np.nan),)),
    }
    graphs = {name: ws.trace(f)(*[np.eye(2)] * len(args)) for name, (f, args) in programs.items()}
    library = CLibrary(graphs, tmp_path)
    for name, (_, args) in programs.items():
        assert isinstance(library(name, args), int), name


def test_systems_determinants_and_triangles(tmp_path: Path) -> None:
    regular = {name: MATRICES[name] for name in ("plain", "complex", "graded", "stack")}
    positive = {name: a @ adjoint(a) + np.eye(a.shape[-1]) for name, a in regular.items()}
    programs: dict[str, Any] = {}
    for name, a in regular.items():
        programs[f"solve_{name}"] = (np.linalg.solve, (a, a[..., :3]))
        programs[f"inv_{name}"] = (np.linalg.inv, (positive[name],))
        programs[f"slogdet_{name}"] = (lambda x: tuple(np.linalg.slogdet(x)), (a,))
        programs[f"qr_{name}"] = (lambda x: tuple(np.linalg.qr(x)), (a,))
        programs[f"cholesky_{name}"] = (np.linalg.cholesky, (positive[name],))
        programs[f"pinv_{name}"] = (np.linalg.pinv, (positive[name],))
    found = in_c(tmp_path, programs)
    for name, a in regular.items():
        close(a @ found[f"solve_{name}"][0], a[..., :3])
        close(found[f"inv_{name}"][0] @ positive[name], np.broadcast_to(np.eye(a.shape[-1]), a.shape))
        close(found[f"pinv_{name}"][0], np.linalg.inv(positive[name]))
        close(found[f"cholesky_{name}"][0], np.linalg.cholesky(positive[name]))
        for y, z in zip(found[f"slogdet_{name}"], np.linalg.slogdet(a), strict=True):
            np.testing.assert_allclose(y, z, rtol=1e-11)
        q, r = found[f"qr_{name}"]
        close(q @ r, a)
        close(adjoint(q) @ q, np.broadcast_to(np.eye(a.shape[-1]), a.shape))


def test_what_lapack_reports_is_a_failure_with_its_line(tmp_path: Path) -> None:
    x = np.eye(3)
    step = ws.compile(lambda p, x: np.sum(np.linalg.cholesky(x * p)), 1.0, optimizer=ws.optim.sgd(1.0), batch=x)
    step.export(tmp_path / "model.c")
    program = CProgram(tmp_path, x, ["model.c"], "")
    with pytest.raises(AssertionError, match=r"Matrix is not positive definite(.|\n)*test_factorizations.py"):
        program.train(tmp_path / "model.safetensors", tmp_path / "new.safetensors", 5)
    with pytest.raises(np.linalg.LinAlgError, match="Matrix is not positive definite"):
        for _ in range(5):
            step(x)


@pytest.mark.parametrize("kind", ["c", "object"])
def test_a_step_with_factorizations_trains_by_formulas(kind: str, tmp_path: Path) -> None:
    step, batch = gaussian()
    sources = {"c": ["model.c"], "object": ["model.o", "model_state.c"]}[kind]
    step.export(tmp_path / sources[0])
    header = (tmp_path / "model.h").read_text()
    assert all(name in header for name in ("lapack.dpotrf", "lapack.dtrtrs", "special.ndtri"))
    program = CProgram(tmp_path, batch, sources, "")
    losses = program.train(tmp_path / "model.safetensors", tmp_path / "new.safetensors", 20)
    np.testing.assert_allclose(losses, [float(step(batch).loss) for _ in range(20)], rtol=1e-9)
    wanted = [np.asarray(x).copy() for x in tree.leaves(step.params)]
    step.load(tmp_path / "new.safetensors")
    np.testing.assert_allclose([np.asarray(x) for x in tree.leaves(step.params)], wanted, rtol=1e-9)
