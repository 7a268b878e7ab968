"""Functions without a derivative or not covered raise an error that names the user's call."""

import numpy as np
import pytest
import scipy.interpolate
import scipy.optimize
import scipy.signal
import scipy.sparse
import scipy.special
import scipy.stats

import wholestep as ws
from wholestep.errors import ArgumentError, DerivativeError, DtypeError, ParameterError, ShapeError, UnsupportedError
from wholestep.scipy import linalg, ndimage, signal, special, stats

SHARE = np.array([0.2, 0.6])
SPARSE = scipy.sparse.csr_array(np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0], [4.0, 5.0, 0.0]]))


@pytest.mark.parametrize(
    ("f", "name"),
    [
        (lambda a: scipy.special.betainc(a, 2.0, SHARE), "betainc"),
        (lambda b: scipy.special.betaincinv(2.0, b, SHARE), "betaincinv"),
        (lambda v: scipy.special.jv(v, SHARE), "jv"),
        (lambda v: scipy.special.kve(v, SHARE), "kve"),
        (lambda df: stats.t.cdf(SHARE, df), "stdtr"),
        (lambda a: stats.beta.ppf(SHARE, a, 2.0), "betaincinv"),
        (lambda a: scipy.special.hyp2f1(a, 1.0, 2.0, SHARE), "hyp2f1"),
    ],
)
def test_an_unknown_derivative_is_refused(f, name):
    with pytest.raises(DerivativeError, match=f"{name}: its derivative with respect to"):
        ws.grad(lambda x: np.sum(f(x)))(1.5)


def test_an_unknown_second_derivative_of_random_numbers_names_them():
    with pytest.raises(DerivativeError, match=r"ws\.random\.gamma .* the second derivative with respect to the order"):
        ws.hessian(lambda a: ws.random.gamma(ws.random.key(0), a))(1.5)


@pytest.mark.parametrize(
    ("f", "error", "words"),
    [
        (lambda x: special.comb(x, 2), UnsupportedError, "scipy.special.comb"),
        (lambda x: special.polygamma(x, 1.0), UnsupportedError, "polygamma"),
        (lambda x: linalg.qz(x, x), UnsupportedError, "scipy.linalg.qz"),
        (lambda x: linalg.qr(x, pivoting=True), UnsupportedError, "qr"),
        (lambda x: linalg.solve_triangular(x, np.ones(4)), ShapeError, "solve_triangular: sizes differ"),
        (lambda x: linalg.cholesky(x[:1]), ShapeError, "cholesky: takes square matrices"),
        (lambda x: linalg.expm(x.astype("f2")), DtypeError, "expm"),
        (lambda x: signal.convolve(x, np.ones(3)), ShapeError, "convolve: ranks differ"),
        (lambda x: signal.convolve(x, np.ones((1, 5)), "valid"), ShapeError, "valid"),
        (lambda x: signal.order_filter(x, np.ones((1, 3)), 0), UnsupportedError, "scipy.signal.order_filter"),
        (lambda x: signal.medfilt(x * 1j), DtypeError, "median_filter: complex numbers such as .* have no order"),
        (lambda x: signal.hilbert(x * 1j), DtypeError, "hilbert: takes real signals"),
        (lambda x: signal.filtfilt([1.0], [1.0, 0.5], x, method="gust"), UnsupportedError, "filtfilt: method='gust'"),
        (lambda x: signal.sosfiltfilt(np.ones((1, 6)) * x[0, 0], x), UnsupportedError, "sosfiltfilt: the length"),
        (lambda x: signal.convolve2d(x, x, boundary="mirror"), ParameterError, "convolve2d: acceptable boundary flags"),
        (lambda x: signal.convolve2d(x, x, "all"), ParameterError, "convolve2d: acceptable mode flags"),
        (lambda x: signal.correlate2d(x[0], x[0]), ShapeError, "correlate2d: takes two matrices"),
        (lambda x: linalg.solve_toeplitz(x[0], np.ones(3)), ShapeError, "solve_toeplitz: sizes differ"),
        (lambda x: ndimage.map_coordinates(x, x), UnsupportedError, "map_coordinates: splines of order 3"),
        (lambda x: ndimage.map_coordinates(x, x, order=1, mode="edge"), ParameterError, "boundary mode 'edge'"),
        (lambda x: ndimage.map_coordinates(x, x[:1], order=1), ShapeError, "map_coordinates: coordinates are"),
        (lambda x: ndimage.map_coordinates(x, x, x, 1), UnsupportedError, "map_coordinates: output= is a dtype"),
        (lambda x: ndimage.zoom(x, 2), UnsupportedError, "scipy.ndimage.zoom"),
        (lambda x: np.histogramdd(x, [2, "auto"]), ArgumentError, "histogramdd: bins are their number"),
        (lambda x: np.histogramdd(x, [2]), ParameterError, "histogramdd: there are 2 variables, bins for 1"),
        (lambda x: np.histogramdd(x, 2, weights=x[0] * 1j), DtypeError, "histogramdd: weights are"),
        (lambda x: np.histogram2d(x[0], [1.0]), ParameterError, "histogram2d: x and y must have the same length"),
        (lambda x: signal.detrend(x, bp=[0, 1]), UnsupportedError, "detrend: break points"),
        (lambda x: signal.detrend(x, type="cubic"), ParameterError, "detrend: 'cubic' is no trend"),
        (lambda x: signal.stft(x, window=x[0]), UnsupportedError, "stft: a traced window"),
        (lambda x: signal.stft(x, nperseg=0), ParameterError, "stft: nperseg=0"),
        (lambda x: signal.stft(x, nperseg=2, noverlap=2), ParameterError, "stft: segments of 2 elements overlap by 2"),
        (lambda x: signal.stft(x, nperseg=2, nfft=1), ParameterError, "stft: segments of 2 .* nfft is 1"),
        (lambda x: signal.stft(x, nperseg=2, scaling="none"), ParameterError, "stft: scaling='none'"),
        (lambda x: signal.stft(x, nperseg=2, boundary="wrap"), ParameterError, "stft: boundary='wrap'"),
        (lambda x: signal.stft(x[:, :1], window=np.ones(3)), ShapeError, r"stft: a window \[3\] does not fit"),
        (lambda x: signal.welch(x[:, :0]), ShapeError, "welch: the signal has no elements"),
        (lambda x: signal.welch(x, nperseg=2, average="mode"), ParameterError, "welch: average='mode'"),
        (lambda x: signal.spectrogram(x, nperseg=2, mode="phase"), UnsupportedError, "spectrogram: mode='phase'"),
        (lambda x: signal.istft(x[0]), ShapeError, "istft: .* has no axis of frequencies"),
        (lambda x: stats.norm.moment(2, x), UnsupportedError, "norm.moment"),
        (
            lambda x: stats.multivariate_normal.cdf(x, np.zeros(2), abseps=1e-9),
            UnsupportedError,
            "multivariate_normal.cdf",
        ),
        (lambda x: stats.zscore(x, nan_policy="omit"), UnsupportedError, "zscore: nan_policy='omit' is not covered"),
        (lambda x: stats.rankdata(x, nan_policy="raise"), UnsupportedError, "rankdata: nan_policy='raise'"),
        (lambda x: stats.rankdata(x, "first"), ParameterError, "rankdata: method is 'first'; it is one of"),
        (lambda x: stats.rankdata(x * 1j), UnsupportedError, "rankdata: complex numbers"),
        (lambda x: stats.sem(x * 1j), UnsupportedError, "sem: complex numbers are not covered"),
        (lambda x: stats.moment(x, x), UnsupportedError, "moment: order is traced"),
        (lambda x: stats.moment(x, 1.5), ParameterError, "moment: order is 1.5"),
        (lambda x: stats.moment(x, 2, center=x), ShapeError, "moment: center is of shape"),
        (lambda x: stats.entropy(x, base=x[0, 0]), UnsupportedError, "entropy: base is traced"),
        (lambda x: stats.entropy(x, base=-1), ParameterError, "entropy: base is -1"),
        (lambda x: stats.iqr(x, scale="raw"), ParameterError, "iqr: scale is 'raw'"),
        (lambda x: stats.iqr(x, rng=(0, 101)), ParameterError, "iqr: rng is"),
        (lambda x: stats.pearsonr(x, x, method="exact"), UnsupportedError, "pearsonr: method="),
        (lambda x: stats.pearsonr(x, x, alternative="more"), ParameterError, "pearsonr: alternative is 'more'"),
        (lambda x: stats.pearsonr(x, x[:1]), ShapeError, "pearsonr: samples of 2 and 1 elements"),
        (lambda x: stats.pearsonr(x, 2 * x).confidence_interval(), UnsupportedError, "confidence_interval: not"),
        (lambda x: stats.spearmanr(x[0]), ShapeError, "spearmanr: one variable"),
        (lambda x: stats.spearmanr(x[None], x[None]), ShapeError, "spearmanr: takes arrays of one or two axes"),
        (lambda x: stats.norm.pdf(x, 0, 1, 2), TypeError, "norm.pdf takes x, loc, scale"),
        (lambda x: np.linalg.solve(x, np.ones(3)), ShapeError, "solve: sizes differ: f64"),
        (lambda x: np.linalg.inv(x[:1]), ShapeError, "inv: the last two sizes must be equal"),
        (lambda x: np.linalg.det(x[0]), ShapeError, "det: takes matrices"),
        (lambda x: np.linalg.inv(x.astype("f2")), DtypeError, "inv: array type float16 is unsupported in linalg"),
        (lambda x: np.linalg.qr(x, mode="raw"), UnsupportedError, "qr: mode 'raw'"),
        (lambda x: np.einsum("ij,jk", x, np.ones((3, 2))), ShapeError, "einsum: sizes 2 and 3 meet"),
        (lambda x: np.einsum("ijk", x), ShapeError, "does not fit f64"),
        (lambda x: np.einsum("ij->ii", x), ShapeError, "repeats a label"),
        (lambda x: np.matmul(x, np.ones((3, 2))), ShapeError, "matmul: inner sizes differ"),
        (lambda x: np.fft.fft(x, n=0), ValueError, "Invalid number of FFT data points"),
        (lambda x: np.fft.fft(x, norm="other"), ValueError, "Invalid norm value other"),
    ],
)
def test_what_is_not_covered_is_named(f, error, words):
    with pytest.raises(error, match=words):
        ws.jit(f)(np.eye(2))


def test_a_singular_matrix_is_numpys_error():
    with pytest.raises(np.linalg.LinAlgError):
        ws.jit(np.linalg.inv)(np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: scipy.signal.resample(x, 2), "scipy.signal.resample"),
        (lambda x: scipy.stats.trim_mean(x, 0.1), "scipy.stats.trim_mean"),
        (
            lambda x: scipy.interpolate.BarycentricInterpolator(np.arange(4.0), x)(2.5),
            "scipy.interpolate.BarycentricInterpolator",
        ),
    ],
    ids=["function", "behind a wrapper", "class"],
)
def test_a_function_of_scipy_that_is_not_covered_is_named(call, name):
    for run in (ws.grad, ws.jit):
        with pytest.raises(ws.errors.ConversionError, match=rf"^{name}: array conversion: a traced f64(.|\n)*compose"):
            run(lambda x: np.sum(call(x)))(np.arange(4.0))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: scipy.stats.norm.rvs(x), r"norm.rvs: not covered(.|\n)*ws.random draws from a key"),
        (lambda x: scipy.stats.norm.interval(0.9, x), r"norm.interval: not covered(.|\n)*ppf"),
        (lambda x: scipy.stats.uniform(x).support(), r"uniform.support: not covered"),
        (lambda x: scipy.stats.norm.moment(2, x), r"norm.moment: not covered"),
    ],
)
def test_methods_of_distributions_without_a_rule_are_named(call, words):
    for run in (ws.grad, ws.jit):
        with pytest.raises(UnsupportedError, match=words):
            run(lambda x: np.sum(call(x)))(np.arange(4.0))


def test_a_draw_by_a_traced_parameter_is_sent_to_keys():
    generator = np.random.default_rng(0)
    for draw in (lambda x: generator.normal(x), lambda x: np.random.normal(x)):
        with pytest.raises(ws.errors.ConversionError, match="draw with a key that changes"):
            ws.jit(draw)(np.arange(4.0))


@pytest.mark.parametrize(
    ("solve", "words"),
    [
        (lambda a: scipy.optimize.fsolve(lambda x: x**2 - a, [1.0]), r"fsolve: not covered(.|\n)*optimize.root"),
        (lambda a: scipy.optimize.ridder(lambda x: x**2 - a, 0, 3), r"ridder: not covered(.|\n)*optimize.brentq"),
        (lambda a: scipy.optimize.fmin(lambda x: (x[0] - a) ** 2, [1.0]), r"fmin: not covered(.|\n)*optimize.minimize"),
        (lambda a: scipy.optimize.milp(np.array([1.0, 2.0]) * a).x, r"milp: not covered(.|\n)*custom_vjp"),
    ],
)
def test_a_solver_that_is_not_covered_is_named_and_so_is_the_way_out(solve, words):
    with pytest.raises(UnsupportedError, match=words):
        ws.jit(lambda a: np.sum(solve(a)))(2.0)


@pytest.mark.parametrize(
    ("product", "error"),
    [
        (lambda x: SPARSE @ x, ws.errors.ConversionError),
        (lambda x: SPARSE.T @ x, ws.errors.ConversionError),
        (lambda x: SPARSE.dot(x), ws.errors.ConversionError),
        (lambda x: x @ SPARSE, DtypeError),
    ],
)
def test_products_with_sparse_matrices_name_the_way_out(product, error):
    for run in (ws.grad, ws.jit):
        with pytest.raises(error, match=r"hint: a sparse matrix takes no traced arrays: A.toarray\(\) @ x"):
            run(lambda x: np.sum(product(x)))(np.arange(3.0))


def test_the_way_out_of_a_product_with_a_sparse_matrix():
    coordinates, weights = SPARSE.tocoo(), np.arange(3.0)

    def product(x):
        y = np.zeros(3)
        np.add.at(y, coordinates.row, coordinates.data * x[coordinates.col])
        return y

    np.testing.assert_allclose(ws.jit(product)(np.arange(3.0)), SPARSE @ np.arange(3.0))
    np.testing.assert_allclose(ws.grad(lambda x: weights @ product(x))(np.ones(3)), SPARSE.T @ weights)
