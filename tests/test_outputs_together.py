"""Mean functions, jackknife+, derivatives, parts and averages where outputs are correlated or have holes."""

import numpy as np
import pytest
from problems import close, smooth
from reference import rbf
from reference_outputs import Dense
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import PolynomialFeatures

from skspectral import KernelSearchCV, SpectralGPRegressor, SpectralKernelRidge, UndeterminedVarianceWarning

X_NEW = np.random.default_rng(7).uniform(-2, 2, (6, 2))


def holes(seed=0, n=40):
    """Return X and three outputs, the first and the last of which share their rows."""
    X, Y = smooth(seed, n=n, m=3)
    Y[:8, [0, 2]] = np.nan
    Y[5:14, 1] = np.nan
    return X, Y


def linear(X):
    return np.column_stack([np.ones(len(X)), X])


def process(**params):
    return SpectralGPRegressor(RBF(1.0) + RBF(3.0), **({"optimizer": None, "basis": "linear"} | params))


@pytest.mark.parametrize("inference", ["maximize", "integrate"])
def test_each_output_with_holes_is_that_of_its_own_rows(inference):
    X, Y = holes()
    gp = process(inference=inference).fit(X, Y)
    mean, std = gp.predict(X_NEW, return_std=True)
    jackknife = gp.predict_interval(X_NEW, 0.8, method="jackknife+")
    slopes, parts = gp.predict_gradient(X_NEW, return_std=True), gp.predict_parts(X_NEW, centred=True)
    for j, y in enumerate(Y.T):
        seen = ~np.isnan(y)
        alone = process(inference=inference).fit(X[seen], y[seen])
        assert close(np.stack([mean[:, j], std[:, j]]), np.stack(alone.predict(X_NEW, return_std=True)))
        assert close(gp.beta_[:, j], alone.beta_, 1e-7)
        covariances = (model.mean_summary()[k].covariance for model, k in ((gp, j), (alone, 0)))
        assert close(*covariances, 1e-7)
        expected = alone.predict_interval(X_NEW, 0.8, method="jackknife+")
        assert close(np.stack([end[:, j] for end in jackknife]), np.stack(expected))
        for slope, of_alone in zip(slopes, alone.predict_gradient(X_NEW, return_std=True), strict=True):
            assert close(slope[..., j], of_alone, 1e-7)
        for part, of_alone in zip(parts, alone.predict_parts(X_NEW, centred=True), strict=True):
            assert part.name == of_alone.name
            assert close(part.mean[:, j], of_alone.mean, 1e-7)
            assert close(part.std[:, j], of_alone.std, 1e-7)


def test_a_ridge_with_holes_has_intervals_of_each_output():
    X, Y = holes()
    ends = SpectralKernelRidge().fit(X, Y).predict_interval(X_NEW, 0.8)
    seen = ~np.isnan(Y[:, 1])
    expected = SpectralKernelRidge().fit(X[seen], Y[seen, 1]).predict_interval(X_NEW, 0.8)
    assert close(np.stack([end[:, 1] for end in ends]), np.stack(expected))


@pytest.mark.parametrize("with_holes", [True, False])
def test_correlated_outputs_have_mean_functions(with_holes):
    X, Y = holes(n=30) if with_holes else smooth(n=30, m=3)
    gp = SpectralGPRegressor(RBF(1.0), optimizer=None, basis="linear", outputs="correlated").fit(X, Y)
    dense = Dense(rbf(X), Y, gp.signal_covariance_, gp.noise_covariance_, linear(X))
    assert gp.log_marginal_likelihood_value_ == pytest.approx(dense.log_evidence(), rel=1e-7)
    expected = [dense.predict(k, 1.0, f) for k, f in zip(rbf(X_NEW, X), linear(X_NEW), strict=True)]
    assert close(gp.predict(X_NEW), np.stack([mean for mean, _ in expected]), 1e-7)
    covariance = gp.predict_output_cov(X_NEW, include_noise=False)
    assert close(covariance, np.stack([cov for _, cov in expected]), 1e-7)
    beta = np.linalg.solve(dense.G, dense.FF.T @ dense.C_inv @ dense.y)
    assert close(gp.beta_.T.ravel(), beta, 1e-7)


def test_correlated_outputs_tell_how_well_their_means_are_known():
    X, Y = smooth(n=30, m=2)
    gp = SpectralGPRegressor(RBF(1.0), optimizer=None, basis="linear", outputs="correlated").fit(X, Y)
    dense = Dense(rbf(X), Y, gp.signal_covariance_, gp.noise_covariance_, linear(X))
    whole = np.linalg.inv(dense.G)
    for j, summary in enumerate(gp.mean_summary()):
        assert close(summary.covariance, whole[3 * j : 3 * j + 3, 3 * j : 3 * j + 3], 1e-7)


@pytest.mark.parametrize(
    ("ask", "what"),
    [
        (lambda gp: gp.predict_interval(X_NEW, method="jackknife+"), "jackknife"),
        (lambda gp: gp.predict_gradient(X_NEW), "predict_gradient"),
        (lambda gp: gp.predict_parts(X_NEW), "predict_parts"),
    ],
)
def test_correlated_outputs_with_holes_refuse_what_is_of_common_rows(ask, what):
    X, Y = holes(n=20)
    gp = SpectralGPRegressor(RBF(1.0), optimizer=None, outputs="correlated").fit(X, Y)
    with pytest.raises(ValueError, match=f"{what}.* is not available for outputs='correlated' with missing"):
        ask(gp)


@pytest.mark.parametrize("params", [{}, {"fit_intercept": False, "basis": None}], ids=["means", "no means"])
def test_jackknife_of_correlated_outputs_is_that_of_models_without_each_row(params):
    X, Y = smooth(n=20, m=2)
    w = np.random.default_rng(1).uniform(0.5, 2.0, 20)
    gp = process(outputs="correlated", **params).fit(X, Y, w)
    F, F_new = (None, [None] * 6) if params else (linear(X), linear(X_NEW))
    K, K_new = (sum(rbf(X, Z, length) for length in (1.0, 3.0)).T for Z in (X, X_NEW))
    ends = np.empty((2, 20, 6, 2))
    for i in range(20):
        o = np.arange(20) != i
        args = (K[np.ix_(o, o)], Y[o], gp.signal_covariance_, gp.noise_covariance_)
        rest = Dense(*args, None if F is None else F[o], w[o])
        left_out = rest.predict(K[i, o], 1.0, None if F is None else F[i])[0]
        width = np.sqrt(w[i]) * np.abs(Y[i] - left_out)
        new = np.array([rest.predict(k[o], 1.0, f)[0] for k, f in zip(K_new, F_new, strict=True)])
        ends[:, i] = new - width, new + width
    rank = int(0.2 * 21)  # of nominal 80 %
    lower, upper = gp.predict_interval(X_NEW, 0.8, method="jackknife+")
    assert close(lower, np.sort(ends[0], axis=0)[rank - 1], 1e-7)
    assert close(upper, np.sort(ends[1], axis=0)[-rank], 1e-7)


@pytest.mark.parametrize("include_noise", [True, False])
def test_derivatives_of_correlated_outputs_are_those_of_differences(include_noise):
    X, Y = smooth(n=30, m=3)
    gp = process(outputs="correlated").fit(X, Y)
    h = 1e-5

    def at(step):
        return np.stack(gp.predict(X_NEW + step, return_std=True, include_noise=include_noise))

    found = gp.predict_gradient(X_NEW, return_std=True, include_noise=include_noise)
    expected = [(at(step) - at(-step)) / (2 * h) for step in h * np.eye(2)]
    assert close(np.stack(found), np.stack(expected, axis=2), 1e-6)


@pytest.mark.parametrize("centred", [True, False])
def test_parts_of_correlated_outputs_are_those_of_the_dense_system(centred):
    X, Y = smooth(n=25, m=2)
    gp = process(outputs="correlated").fit(X, Y)
    parts = gp.predict_parts(X_NEW, centred=centred)
    average = gp.predict(X).mean(axis=0) if centred else 0.0
    assert close(sum(part.mean for part in parts), gp.predict(X_NEW) - average, 1e-8)
    K = rbf(X, X, 1.0) + rbf(X, X, 3.0)
    dense = Dense(K, Y, gp.signal_covariance_, gp.noise_covariance_, linear(X))
    P = dense.C_inv - dense.C_inv @ dense.FF @ np.linalg.solve(dense.G, dense.FF.T @ dense.C_inv)
    for part, length in zip(parts[1:], (1.0, 3.0), strict=True):
        k, middle = rbf(X_NEW, X, length), rbf(X, X, length).mean(axis=0) if centred else 0.0
        prior = 1.0 - 2.0 * k.mean(axis=1) + rbf(X, X, length).mean() if centred else np.ones(6)
        for i, row in enumerate(k - middle):
            c = np.kron(gp.signal_covariance_, row[:, None])
            variance = prior[i] * gp.signal_covariance_ - c.T @ P @ c
            assert close(part.std[i] ** 2, np.diag(variance), 1e-6)
            assert close(part.mean[i], c.T @ P @ dense.y, 1e-6)


def test_constant_outputs_beside_correlated_ones_have_intervals_and_derivatives():
    X, Y = smooth(n=20, m=2)
    Y = np.column_stack([Y, np.full(20, 3.0), Y.sum(axis=1)])
    with pytest.warns(UndeterminedVarianceWarning):
        gp = process(outputs="correlated").fit(X, Y)
    lower, upper = gp.predict_interval(X_NEW, 0.8, method="jackknife+")
    assert close(np.stack([lower[:, 2], upper[:, 2]]), np.full((2, 6), 3.0))
    slope = gp.predict_gradient(X_NEW)
    assert np.abs(slope[..., 2]).max() < 1e-8
    assert close(slope[..., 3], slope[..., 0] + slope[..., 1], 1e-6)
    assert np.isinf(gp.predict_parts(X_NEW)[1].std[:, 2]).all()


def test_correlated_outputs_with_holes_tell_how_well_their_means_are_known():
    X, Y = holes(n=30)
    gp = process(outputs="correlated").fit(X, Y)
    K = rbf(X, X, 1.0) + rbf(X, X, 3.0)
    dense = Dense(K, Y, gp.signal_covariance_, gp.noise_covariance_, linear(X))
    whole = np.linalg.inv(dense.G)
    for j, summary in enumerate(gp.mean_summary()):
        assert close(summary.covariance, whole[3 * j : 3 * j + 3, 3 * j : 3 * j + 3], 1e-6)
        assert close(summary.coefficients, gp.beta_[:, j])
        assert summary.degrees_of_freedom == (~np.isnan(Y[:, j])).sum() - 3


def test_what_correlated_outputs_with_holes_cannot_do_says_so():
    X, Y = holes(n=20)
    correlated = SpectralGPRegressor(RBF(1.0), optimizer=None, outputs="correlated")
    with pytest.raises(ValueError, match="indefinite='flip' may replace"):
        correlated.set_params(indefinite="flip").fit(X, Y)


def test_learned_kernels_are_not_averaged_over_where_y_has_holes():
    X, Y = holes(n=20)
    with pytest.raises(ValueError, match=r"y has missing entries \(NaN\). Use optimizer=None"):
        SpectralGPRegressor(RBF(1.0), inference="integrate").fit(X, Y)


def test_a_given_rank_takes_the_learned_kernel_as_known():
    X, y = smooth(n=60)
    model = SpectralGPRegressor(RBF(1.0), method="low_rank", rank=15, inference="integrate").fit(X, y)
    assert model.kernel_posterior_ is None
    assert model.variance_posterior_ is not None


def test_each_output_needs_rows_for_its_mean_functions():
    X, Y = smooth(n=12, m=2)
    Y[2:, 1] = np.nan
    with pytest.raises(ValueError, match="3 functions, the constant included, and n_samples=2"):
        SpectralGPRegressor(RBF(1.0), basis="linear", optimizer=None).fit(X, Y)


@pytest.mark.parametrize("alphas", [[0.1, 1.0, 10.0], ["auto"]])
def test_searches_among_repairs_and_penalties_are_those_of_single_fits(alphas):
    X, y = smooth(n=30)
    ridge = SpectralKernelRidge(kernel="sigmoid", gamma=2.0, coef0=-1.0, indefinite="flip")
    grid = {"indefinite": ["flip", "clip"], "alpha": alphas, "criterion": ["evidence", "gcv"]}
    search, single = (kind(ridge, grid, cv=3).fit(X, y) for kind in (KernelSearchCV, GridSearchCV))
    for name in ("mean_test_score", "std_test_score"):
        assert close(search.cv_results_[name], single.cv_results_[name])
    assert np.ptp(search.cv_results_["mean_test_score"]) > 1e-3


def test_searches_among_mean_functions_are_those_of_single_fits():
    X, y = smooth(n=30)
    gp = SpectralGPRegressor(RBF(1.0), optimizer=None)
    grid = {
        "basis": [None, "linear", PolynomialFeatures(2, include_bias=False)],
        "criterion": ["evidence", "gcv"],
    }
    search, single = (kind(gp, grid, cv=3).fit(X, y) for kind in (KernelSearchCV, GridSearchCV))
    assert close(search.cv_results_["mean_test_score"], single.cv_results_["mean_test_score"])
