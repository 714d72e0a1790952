"""Mean functions: universal kriging against dense algebra, and what is said of their coefficients."""

import warnings

import numpy as np
import pytest
from problems import close, smooth
from reference import kriging_variance, reml, ridge
from scipy import stats
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, SplineTransformer

from skspectral import RankDeficientBasisWarning, SpectralGPRegressor
from skspectral.inference.mean_summary import MeanSummary


def monomials(X):
    return np.column_stack([np.ones(len(X)), X])


def quadratics(X):
    return PolynomialFeatures(2).fit_transform(X)


def waves(X):
    return np.sin(X)


CASES = {
    "linear": ("linear", True, monomials),
    "linear, no constant": ("linear", False, lambda X: X),
    "quadratic": ("quadratic", True, quadratics),
    "callable": (waves, True, lambda X: np.column_stack([np.ones(len(X)), np.sin(X)])),
    "transformer": (
        FunctionTransformer(waves),
        False,
        waves,
    ),
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


def trended(seed=0, n=30, m=2):
    X, Y = smooth(seed, n=n, m=m)
    return X, Y + X @ np.array([[3.0, -1.0], [0.5, 2.0]])


@pytest.mark.parametrize("weighted", [False, True])
def test_universal_kriging_is_the_textbooks(case, weighted):
    basis, intercept, functions = case
    X, Y = trended()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(X)) if weighted else None
    gp = SpectralGPRegressor(RBF(1.2), optimizer=None, basis=basis, fit_intercept=intercept)
    gp.fit(X, Y, sample_weight=weight)
    X_new = np.random.default_rng(2).uniform(-3, 3, (7, 2))
    K, K_new, prior = RBF(1.2)(X), RBF(1.2)(X_new, X), RBF(1.2)(X_new)
    F, F_new = functions(X), functions(X_new)
    mean, std = gp.predict(X_new, return_std=True, include_noise=False)
    evidence = 0.0
    for j in range(2):
        noise, signal = gp.noise_variance_[j], gp.signal_variance_[j]
        assert close(mean[:, j], ridge(K, Y[:, j], noise / signal, K_new, F, F_new, weight))
        variance = np.diag(kriging_variance(K, K_new, prior, noise, signal, F, F_new, weight))
        assert close(std[:, j] ** 2, variance, 1e-7)
        evidence += reml(K, Y[:, j], F, noise, signal, weight)
    assert gp.log_marginal_likelihood_value_ == pytest.approx(evidence, rel=1e-9)
    assert gp.beta_.shape == (F.shape[1], 2)
    assert len(gp.mean_names_) == F.shape[1]


def test_coefficients_and_their_covariance_are_generalised_least_squares(case):
    basis, intercept, functions = case
    X, Y = trended()
    gp = SpectralGPRegressor(RBF(1.2), optimizer=None, basis=basis, fit_intercept=intercept).fit(X, Y)
    F = functions(X)
    for j, summary in enumerate(gp.mean_summary()):
        C = gp.signal_variance_[j] * RBF(1.2)(X) + gp.noise_variance_[j] * np.eye(len(X))
        covariance = np.linalg.inv(F.T @ np.linalg.solve(C, F))
        beta = covariance @ F.T @ np.linalg.solve(C, Y[:, j])
        assert close(summary.coefficients, beta)
        assert close(summary.covariance, covariance)
        assert close(gp.beta_[:, j], beta)
        t = beta / np.sqrt(np.diag(covariance))
        assert close(summary.t_values, t)
        dof = len(X) - F.shape[1]
        assert close(summary.p_values, 2 * stats.t(dof).sf(np.abs(t)), 1e-6)
        some = summary.names[-2:]
        test, part = summary.wald(some), covariance[-2:, -2:]
        statistic = beta[-2:] @ np.linalg.solve(part, beta[-2:]) / len(some)
        assert test.statistic == pytest.approx(statistic, rel=1e-8)
        assert test.p_value == pytest.approx(stats.f(len(some), dof).sf(statistic), rel=1e-6)
        assert test.degrees_of_freedom == (len(some), dof)


def test_in_the_limit_of_pure_noise_it_is_ordinary_least_squares():
    X, _ = smooth(n=40)
    y = 1.0 + X @ [2.0, -3.0] + np.random.default_rng(0).normal(size=40)
    gp = SpectralGPRegressor(ConstantKernel(0.0, "fixed") * RBF(1.0), optimizer=None, basis="linear").fit(
        X, y
    )
    F = monomials(X)
    beta, rss, *_ = np.linalg.lstsq(F, y)
    summary = gp.mean_summary()[0]
    assert close(summary.coefficients, beta, 1e-6)
    assert close(summary.covariance, np.linalg.inv(F.T @ F) * rss / 37, 1e-6)
    assert summary.wald().degrees_of_freedom == (2, 37)


def test_predictions_are_invariant_to_a_trend_that_is_added():
    X, y = smooth(n=35)
    X_new, slope = X[:5] + 0.1, np.array([100.0, -50.0])
    one, other = (
        SpectralGPRegressor(RBF(1.0), basis="linear").fit(X, targets) for targets in (y, y + 7.0 + X @ slope)
    )
    assert close(other.predict(X_new) - 7.0 - X_new @ slope, one.predict(X_new), 1e-5)
    assert one.log_marginal_likelihood_value_ == pytest.approx(other.log_marginal_likelihood_value_, abs=1e-5)


def test_units_of_the_inputs_do_not_matter():
    X, y = smooth(n=30)
    unit = np.array([1e-9, 1e8])
    one = SpectralGPRegressor(RBF([1.0, 2.0]), optimizer=None, basis="quadratic").fit(X, y)
    other = SpectralGPRegressor(RBF(unit * [1.0, 2.0]), optimizer=None, basis="quadratic").fit(X * unit, y)
    assert close(other.predict(X[:4] * unit), one.predict(X[:4]), 1e-6)
    assert close(other.beta_[1:3] * unit, one.beta_[1:3], 1e-6)


def test_learning_with_mean_functions_has_the_gradient_of_the_restricted_evidence():
    X, y = smooth(n=30)
    gp = SpectralGPRegressor(RBF(1.0), basis="quadratic").fit(X, y)
    theta = gp.kernel_.theta + 0.3
    _, gradient = gp.log_marginal_likelihood(theta, eval_gradient=True)
    # what the quadratic leaves of K has eigenvalues down to 1e-13: smaller steps only show their rounding
    ahead, behind = (gp.log_marginal_likelihood(theta + h) for h in (1e-3, -1e-3))
    assert gradient[0] == pytest.approx((ahead - behind) / 2e-3, rel=1e-5)
    assert abs(gp.log_marginal_likelihood(gp.kernel_.theta, eval_gradient=True)[1][0]) < 1e-3


def test_low_rank_and_exact_agree():
    X, y = smooth(n=60)
    exact = SpectralGPRegressor(RBF(2.0), optimizer=None, basis="quadratic").fit(X, y)
    for more in ({"rank": 60}, {"selection": "greedy"}):
        factor = SpectralGPRegressor(RBF(2.0), optimizer=None, basis="quadratic", method="low_rank", **more)
        factor.fit(X, y)
        loose = 1e-5 if "rank" in more else 0.05
        assert close(factor.predict(X), exact.predict(X), loose)
    covariances = [m.mean_summary()[0].covariance for m in (exact, factor)]
    assert close(*covariances, 0.2)


def test_fitted_and_unfitted_transformers():
    X, y = smooth(n=40, p=1)
    splines = SplineTransformer(4, degree=2, include_bias=False)
    unfitted = SpectralGPRegressor(RBF(1.0), optimizer=None, basis=splines).fit(X, y)
    assert not hasattr(splines, "bsplines_")  # cloned
    fitted = SpectralGPRegressor(RBF(1.0), optimizer=None, basis=splines.fit(X)).fit(X, y)
    assert close(unfitted.predict(X), fitted.predict(X))
    elsewhere = SplineTransformer(4, degree=2, include_bias=False).fit(2.0 * X)
    other = SpectralGPRegressor(RBF(1.0), optimizer=None, basis=elsewhere).fit(X, y)
    assert not close(other.beta_, fitted.beta_, 1e-3)  # used as it is


def test_averaged_variances_widen_standard_errors():
    X, y = smooth(n=15)
    settings = {"optimizer": None, "basis": "linear"}
    plain = SpectralGPRegressor(RBF(1.0), **settings).fit(X, y).mean_summary()[0]
    wide = SpectralGPRegressor(RBF(1.0), inference="integrate", **settings).fit(X, y).mean_summary()[0]
    assert (wide.standard_errors > plain.standard_errors).all()


def test_the_summary_reads_well():
    X, y = smooth(n=40)
    gp = SpectralGPRegressor(RBF(1.0), optimizer=None, basis="linear").fit(X, y)
    lines = str(gp.mean_summary()[0]).splitlines()
    assert lines[0].split() == ["function", "beta", "std.", "error", "t", "p"]
    assert [line.split()[0] for line in lines[1:4]] == ["1", "x0", "x1"]
    assert lines[4].startswith("Wald test that all but the constant are 0: F(2, 37) = ")


def test_names_of_columns_are_names_of_functions():
    pd = pytest.importorskip("pandas")
    X, y = smooth(n=20)
    table = pd.DataFrame(X, columns=["east", "north"])
    gp = SpectralGPRegressor(RBF(1.0), optimizer=None, basis="quadratic").fit(table, y)
    assert gp.mean_names_ == ("1", "east", "north", "east^2", "east north", "north^2")


def test_columns_that_rows_do_not_tell_apart_are_announced_once_and_predict_all_the_same():
    X, y = smooth(n=700, p=1)
    doubled = FunctionTransformer(lambda X: np.column_stack([X, 2 * X, X[:, 0] > 1.9]))
    with pytest.warns(RankDeficientBasisWarning, match="3 of 4 mean functions"):
        gp = SpectralGPRegressor(RBF(1.0), basis=doubled).fit(X, y)
    assert np.isfinite(gp.predict(X, return_std=True)).all()


def test_subsets_of_the_rows_need_not_tell_functions_apart():
    X, y = smooth(n=700, p=1)
    first = X[:2].T
    rare = FunctionTransformer(lambda X: (first == X).astype(float))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SpectralGPRegressor(RBF(1.0), basis=rare).fit(X, y)


@pytest.mark.parametrize(
    ("basis", "message"),
    [
        (lambda X: np.full((len(X), 1), np.nan), "NaN or infinite"),
        (lambda X: np.ones((3, 1)), r"got shape \(3, 1\)"),
        ("quadratic", "6 functions, the constant included, and n_samples=5"),
    ],
)
def test_bad_bases_are_refused(basis, message):
    X, y = smooth(n=5)
    with pytest.raises(ValueError, match=message):
        SpectralGPRegressor(RBF(1.0), basis=basis).fit(X, y)


def test_a_basis_needs_inputs_and_scikit_learn_has_none():
    X, y = smooth(n=8)
    with pytest.raises(ValueError, match="does not know"):
        SpectralGPRegressor("precomputed", basis="linear").fit(RBF()(X), y)
    gp = SpectralGPRegressor(RBF(), optimizer=None, basis="linear").fit(X, y)
    with pytest.raises(ValueError, match="has no mean functions"):
        gp.to_sklearn()
    with pytest.raises(ValueError, match="no mean function to test"):
        gp.mean_summary()[0].wald(["x7"])


@pytest.mark.filterwarnings("ignore::skspectral.UndeterminedVarianceWarning")
def test_as_many_functions_as_rows():
    X, y = smooth(n=6)
    gp = SpectralGPRegressor(RBF(), basis="quadratic").fit(X, y)
    assert close(gp.predict(X), y, 1e-6)
    summary = gp.mean_summary()[0]
    assert (summary.p_values == 1).all()
    assert summary.wald().p_value == 1
    assert summary.wald().degrees_of_freedom == (0, 0)
    assert np.isinf(summary.standard_errors).all()


def test_coefficients_beyond_all_multiples_of_their_errors_leak_no_warning():
    summary = MeanSummary(("a", "b"), np.array([-1e200, 0.0]), np.diag([1e-300, 1e-300]), 5)
    assert list(summary.t_values) == [-np.inf, 0.0]
    assert list(summary.p_values) == [0.0, 1.0]
