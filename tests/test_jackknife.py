"""jackknife+ intervals: equal to n refits with variances held, and what they cover."""

from types import SimpleNamespace

import numpy as np
import pytest
from problems import close, smooth
from reference import ridge
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from skspectral import SpectralGPRegressor, SpectralKernelRidge
from skspectral.inference.jackknife import JackknifePlus
from skspectral.models import fitted as fitted_module


def by_refits(K, K_new, y, ratio, coverage, F=None, F_new=None, weight=None):
    """The definition of Barber et al. (2021), one refit for each row of positive weight."""
    weight = np.ones(len(y)) if weight is None else weight
    rows, lows, highs = np.flatnonzero(weight), [], []
    for i in rows:
        o = rows[rows != i]
        new = np.vstack([K_new[:, o], K[[i]][:, o]])
        F_o, F_i = (None, None) if F is None else (F[o], np.vstack([F_new, F[[i]]]))
        mean = ridge(K[np.ix_(o, o)], y[o], ratio, new, F_o, F_i, weight[o])
        error = np.sqrt(weight[i]) * abs(y[i] - mean[-1])
        lows.append(mean[:-1] - error)
        highs.append(mean[:-1] + error)
    k = int(np.floor(round((1 - coverage) * (len(rows) + 1), 9)))
    return np.sort(lows, axis=0)[k - 1], np.sort(highs, axis=0)[-k]


@pytest.mark.parametrize("mean", ["none", "constant", "linear"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("coverage", [0.9, 0.5])
def test_intervals_equal_those_of_refits(mean, weighted, coverage):
    X, Y = smooth(n=19, m=2)
    X_new = np.random.default_rng(1).uniform(-3, 3, (6, 2))
    weight = None
    if weighted:
        weight = np.random.default_rng(2).uniform(0.3, 3.0, 19)
        weight[4] = 0.0
    F, F_new = {
        "none": (None, None),
        "constant": (np.ones((19, 1)), np.ones((6, 1))),
        "linear": tuple(np.column_stack([np.ones(len(A)), A]) for A in (X, X_new)),
    }[mean]
    gp = SpectralGPRegressor(
        RBF(1.0), optimizer=None, fit_intercept=mean != "none", basis="linear" if mean == "linear" else None
    ).fit(X, Y, sample_weight=weight)
    lower, upper = gp.predict_interval(X_new, coverage, method="jackknife+")
    for j in range(2):
        ratio = gp.noise_variance_[j] / gp.signal_variance_[j]
        expected = by_refits(RBF(1.0)(X), RBF(1.0)(X_new, X), Y[:, j], ratio, coverage, F, F_new, weight)
        assert close(lower[:, j], expected[0])
        assert close(upper[:, j], expected[1])


def test_the_ridge_and_the_process_agree_in_blocks_and_for_sparse_rows(monkeypatch):
    X, y = smooth(n=30)
    gp = SpectralGPRegressor(RBF(1.0), optimizer=None).fit(X, y)
    ridge = SpectralKernelRidge(gamma=0.5).fit(X, y)
    whole = gp.predict_interval(X, 0.8, method="jackknife+")
    monkeypatch.setattr(fitted_module, "_BLOCK_ENTRIES", 7 * 30)
    for model, inputs in ((gp, X), (ridge, X), (ridge, sparse.csr_array(X))):
        ends = model.predict_interval(inputs, 0.8, method="jackknife+")
        assert close(ends[0], whole[0])
        assert close(ends[1], whole[1])


def test_low_rank_and_precomputed_kernels():
    X, y = smooth(n=40)
    exact = SpectralGPRegressor(RBF(2.0), optimizer=None).fit(X, y).predict_interval(X, method="jackknife+")
    K = RBF(2.0)(X)
    given = SpectralGPRegressor("precomputed").fit(K, y).predict_interval(K, method="jackknife+")
    assert close(given[0], exact[0], 1e-6)
    factor = SpectralGPRegressor(RBF(2.0), optimizer=None, method="low_rank", rank=40).fit(X, y)
    assert close(factor.predict_interval(X, method="jackknife+")[1], exact[1], 1e-4)
    linear = SpectralKernelRidge(kernel="linear").fit(X, y).predict_interval(X)
    assert (linear[0] < linear[1]).all()


def test_too_few_rows_for_the_coverage_make_intervals_infinite():
    X, y = smooth(n=15)
    gp = SpectralGPRegressor(RBF(1.0), optimizer=None).fit(X, y)
    lower, upper = gp.predict_interval(X[:2], 0.95, method="jackknife+")
    assert (lower == -np.inf).all()
    assert (upper == np.inf).all()
    assert np.isfinite(gp.predict_interval(X[:2], 0.93, method="jackknife+")).all()


def test_the_scale_of_the_targets_moves_intervals_along():
    X, y = smooth(n=25)
    one, other = (SpectralKernelRidge(gamma=0.5).fit(X, t).predict_interval(X) for t in (y, 3.0 - 1e6 * y))
    assert close((3.0 - other[1]) / 1e6, one[0], 1e-6)


@pytest.mark.filterwarnings("ignore::skspectral.NoiseResolutionWarning")
def test_coverage_of_a_model_that_is_wrong():
    """Heavy tails, a kernel that is far too smooth, and a noise variance that is too small."""
    rng, inside = np.random.default_rng(0), {"model": [], "jackknife+": []}
    for _ in range(60):
        X = rng.uniform(-2, 2, (80, 1))
        y = np.sign(X[:, 0]) * 2.0 + rng.standard_t(2, 80)
        gp = SpectralGPRegressor(RBF(3.0) + WhiteKernel(0.1, "fixed"), optimizer=None).fit(X[:40], y[:40])
        for method, covered in inside.items():
            lower, upper = gp.predict_interval(X[40:], 0.9, method=method)
            covered.append(((lower <= y[40:]) & (y[40:] <= upper)).mean())
    assert np.mean(inside["model"]) < 0.75
    assert 0.86 < np.mean(inside["jackknife+"]) < 0.94


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "bootstrap"}, "method='bootstrap' is unknown"),
        ({"method": "jackknife+", "include_noise": False}, "errors of observations"),
        ({"method": "jackknife+", "coverage": 1.0}, "strictly between 0 and 1"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    X, y = smooth(n=10)
    gp = SpectralGPRegressor(RBF(1.0), optimizer=None).fit(X, y)
    with pytest.raises(ValueError, match=message):
        gp.predict_interval(X, **arguments)
    with pytest.raises(ValueError, match="method='model' is unknown"):
        SpectralKernelRidge().fit(X, y).predict_interval(X, method="model")


@pytest.mark.parametrize(
    ("n", "coverage", "rank"),
    [(99, 0.9, 10), (19, 0.8, 4), (99, 0.90001, 9), (99, 0.89999, 10), (18, 0.95, 0), (19, 0.95, 1)],
)
def test_ranks_are_whole_where_products_are_but_for_rounding(n, coverage, rank):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 1))
    gp = SpectralGPRegressor(RBF(1.0), optimizer=None).fit(X, X[:, 0] + 0.1 * rng.normal(size=n))
    assert JackknifePlus(gp._fitted.solution, coverage)._rank == rank


@pytest.mark.parametrize("rank", [1, 2, 17, 60, 119, 120])
def test_ends_have_their_rank_among_many_models(rank):
    rng = np.random.default_rng(rank)
    each, width = rng.normal(size=(5, 120)), rng.uniform(0.1, 2.0, 120)
    lower, upper = JackknifePlus._ends(SimpleNamespace(_rank=rank), each, width)
    np.testing.assert_array_equal(lower, np.sort(each - width, axis=1)[:, rank - 1])
    np.testing.assert_array_equal(upper, np.sort(each + width, axis=1)[:, -rank])
