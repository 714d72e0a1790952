"""Regression with outliers, counts and one's own likelihood."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from problems import close, smooth
from scipy.stats import invgamma
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import mean_poisson_deviance

from skspectral import GeneralizedGPRegressor, KernelSearchCV, LowRankWarning, SpectralGPRegressor
from skspectral.decomposition import plan
from skspectral.likelihoods import (
    BY_NAME,
    Categorical,
    Derivatives,
    Gaussian,
    Huber,
    Laplace,
    Likelihood,
    Poisson,
    StudentT,
)

pytestmark = pytest.mark.filterwarnings("ignore::skspectral.KernelBoundWarning")
NAMES = ["student_t", "laplace", "huber", "gaussian"]


def with_outliers(seed, n=150):
    """Return inputs, targets with 10 % of gross errors, the same without, new inputs and the truth there."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 10, (n, 1))
    new = np.linspace(0.2, 9.8, 300)[:, None]
    truth, at_new = (3.0 * np.sin(Z[:, 0]) + 0.3 * Z[:, 0] for Z in (X, new))
    clean = truth + 0.2 * rng.normal(size=n)
    y, chosen = clean.copy(), rng.choice(n, n // 10, replace=False)
    y[chosen] += rng.choice([-1.0, 1.0], len(chosen)) * rng.uniform(5, 20, len(chosen))
    return X, y, clean, new, at_new


def rmse(a, b):
    return np.sqrt(np.mean((a - b) ** 2))


def sklearn_process():
    return GaussianProcessRegressor(ConstantKernel() * RBF() + WhiteKernel(), normalize_y=True)


@pytest.mark.slow
def test_outliers_cost_little_and_their_absence_less():
    errors = []
    for seed in range(8):
        X, y, clean, new, truth = with_outliers(seed)
        models = [GeneralizedGPRegressor().fit(X, y), sklearn_process().fit(X, y)]
        models += [GeneralizedGPRegressor().fit(X, clean), sklearn_process().fit(X, clean)]
        errors.append([rmse(model.predict(new), truth) for model in models])
    robust, normal, robust_clean, normal_clean = np.mean(errors, axis=0)
    assert robust < 0.1 * normal
    assert robust_clean < 1.05 * normal_clean


@pytest.mark.parametrize("name", NAMES[:3])
def test_outliers_are_shrugged_off(name):
    X, y, _, new, truth = with_outliers(0)
    model = GeneralizedGPRegressor(name).fit(X, y)
    assert rmse(model.predict(new), truth) < 0.5 * rmse(sklearn_process().fit(X, y).predict(new), truth)


@pytest.mark.slow
def test_counts():
    deviances = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, new = rng.uniform(0, 10, (150, 1)), np.linspace(0.2, 9.8, 300)[:, None]
        y, y_new = (rng.poisson(np.exp(1.5 * np.sin(Z[:, 0]))).astype(float) for Z in (X, new))
        ours = GeneralizedGPRegressor("poisson").fit(X, y).predict(new)
        linear = PoissonRegressor().fit(X, y).predict(new)
        logs = np.expm1(sklearn_process().fit(X, np.log1p(y)).predict(new))
        rates = ours, linear, np.maximum(logs, 1e-3)
        deviances.append([mean_poisson_deviance(y_new, rate) for rate in rates])
    ours, linear, logs = np.mean(deviances, axis=0)
    assert ours < linear
    assert ours < logs


def test_a_constant_rate_is_the_mean_count():
    X, y = np.arange(40.0)[:, None], np.repeat([1.0, 0.0], [4, 36])
    model = GeneralizedGPRegressor("poisson", ConstantKernel(1e-6, "fixed") * RBF(1.0), optimizer=None)
    # of the exact posterior, Gamma(4) for 40 rate; exp(1/8) = 1.13 times that without the skewness
    assert model.fit(X, y).predict(X).mean() == pytest.approx(0.1, rel=0.01)


@pytest.mark.parametrize("options", [{}, {"method": "low_rank"}])
def test_expected_rates_add_up_to_the_counts(options):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (80, 5))
    weight = rng.uniform(0.5, 2.0, 80)
    y = rng.poisson(np.exp(np.sin(2 * X[:, 0]))).astype(float)
    model = GeneralizedGPRegressor("poisson", RBF(1.3), optimizer=None, **options).fit(X, y, weight)
    assert weight @ model.predict(X) == pytest.approx(weight @ y, rel=0.02)
    by_mode = np.exp(model.predict_latent(X)[0])
    assert weight @ by_mode < 0.9 * (weight @ y)  # rates are skewed: their mean is larger


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_normal_noise_is_that_of_the_exact_process(fit_intercept):
    X, y = smooth()
    exact = SpectralGPRegressor(RBF(1.0), fit_intercept=fit_intercept).fit(X, y)
    model = GeneralizedGPRegressor("gaussian", RBF(1.0), fit_intercept=fit_intercept).fit(X, y)
    constant = 0.5 * np.log(2 * np.pi * len(y)) if fit_intercept else 0.0
    assert model.log_marginal_likelihood_value_ + constant == pytest.approx(
        exact.log_marginal_likelihood_value_, abs=1e-4
    )
    assert model.likelihood_.noise_var == pytest.approx(exact.noise_variance_, rel=0.02)
    given = ConstantKernel(exact.signal_variance_) * exact.kernel_
    model = GeneralizedGPRegressor(
        Gaussian(noise_var=exact.noise_variance_), given, fit_intercept=fit_intercept, optimizer=None
    ).fit(X, y)
    new = X[:7] + 0.2
    for ours, theirs in zip(
        model.predict(new, return_std=True), exact.predict(new, return_std=True), strict=True
    ):
        assert close(ours, theirs, 1e-6)
    for ours, theirs in zip(model.predict_interval(new, 0.8), exact.predict_interval(new, 0.8), strict=True):
        assert close(ours, theirs, 1e-5)
    assert model.log_marginal_likelihood_value_ + constant == pytest.approx(
        exact.log_marginal_likelihood_value_, rel=1e-8
    )


@pytest.mark.parametrize("name", NAMES)
def test_units_of_the_targets_have_no_part(name):
    X, y = smooth()
    one = GeneralizedGPRegressor(name, RBF(1.0)).fit(X, y)
    other = GeneralizedGPRegressor(name, RBF(1.0)).fit(X, 1e6 * y + 3e6)
    assert close(other.predict(X), 1e6 * one.predict(X) + 3e6, 1e-4)
    n = len(y) - 1
    assert other.log_marginal_likelihood_value_ == pytest.approx(
        one.log_marginal_likelihood_value_ - n * np.log(1e6), rel=1e-4
    )


@pytest.mark.parametrize("name", [*NAMES, "poisson"])
def test_the_learned_point_has_no_slope(name):
    X, y = smooth()
    y = np.round(np.exp(0.5 * y)) if name == "poisson" else 10.0 * y
    model = GeneralizedGPRegressor(name, RBF(1.0)).fit(X, y)
    theta = np.concatenate([[np.log(model.signal_variance_)], model.kernel_.theta, model.likelihood_.theta])
    value, gradient = model.log_marginal_likelihood(theta, eval_gradient=True)
    assert value == pytest.approx(model.log_marginal_likelihood_value_, abs=1e-6)
    inside = 1 if name == "student_t" else 0  # degrees of freedom may end at their bound
    assert np.abs(gradient[: len(gradient) - inside]).max() < 0.05


def test_one_function_of_x_is_followed_from_wide_noise_to_its_own():
    X, y, _, new, truth = with_outliers(3)
    kernel = ConstantKernel(10.0) * RBF(1.5)
    model = GeneralizedGPRegressor(StudentT(scale=0.2, dof=2.0), kernel, optimizer=None).fit(X, y)
    assert model.n_modes_ == 1
    assert rmse(model.predict(new), truth) < 0.2


def test_a_matrix_that_is_not_affordable_is_replaced_with_a_warning(monkeypatch):
    monkeypatch.setattr(plan, "LARGEST_AFFORDABLE", 79)
    monkeypatch.setattr(plan, "_AFFORDABLE_FLOPS", 5.0 * 80 * 6.2**2)
    X, y = smooth(n=80)
    model = GeneralizedGPRegressor("huber", RBF(1.0), optimizer=None)
    with pytest.warns(LowRankWarning, match=r"matrix of 80 rows .* rank 12 stands in"):
        model.fit(X, y)
    given = GeneralizedGPRegressor("huber", RBF(1.0), optimizer=None, rank=12, method="low_rank").fit(X, y)
    assert close(model.predict(X), given.predict(X))


@pytest.mark.parametrize("name", [*NAMES, "poisson"])
def test_intervals_hold_what_is_drawn(name):
    X, y = smooth(n=60)
    y = np.round(np.exp(0.5 * y)) if name == "poisson" else y
    model = GeneralizedGPRegressor(name, RBF(1.0)).fit(X, y)
    new = X[:6]
    draws = model.sample_y(new, 4000, random_state=0)
    assert draws.shape == (6, 4000)
    lower, upper = model.predict_interval(new, 0.8)
    inside = ((draws >= lower[:, None]) & (draws <= upper[:, None])).mean(axis=1)
    assert (inside > 0.76).all()
    assert name == "poisson" or (inside < 0.84).all()
    mean, std = model.predict(new, return_std=True)
    assert np.abs(draws.mean(axis=1) - mean).max() < 0.1 * std.max()


def test_the_log_evidence_of_weighted_rows_is_a_density_of_as_many_numbers_as_weights_say():
    X, y = smooth()
    weight = np.random.default_rng(1).uniform(0.5, 3.0, len(y))
    one, other = (
        GeneralizedGPRegressor("student_t", RBF(1.0), optimizer=None).fit(X, unit * y, weight)
        for unit in (1.0, 1e3)
    )
    assert other.log_marginal_likelihood_value_ == pytest.approx(
        one.log_marginal_likelihood_value_ - (weight.sum() - 1) * np.log(1e3), rel=1e-6
    )


def test_latent_draws_vary_together():
    X, y = smooth()
    model = GeneralizedGPRegressor(Gaussian(noise_var=1e-8), 2.0 * RBF(1.0), optimizer=None).fit(X, y)
    draws = model.sample_y(np.array([[3.0, 3.0], [3.01, 3.0]]), 200)
    assert np.corrcoef(draws)[0, 1] > 0.99


def test_weights_repeat_rows():
    X, y = smooth()
    weight = np.resize([1.0, 0.0, 2.0], len(y))
    rows = np.repeat(np.arange(len(y)), weight.astype(int))
    one = GeneralizedGPRegressor("laplace", RBF(1.0), optimizer=None).fit(X, y, sample_weight=weight)
    two = GeneralizedGPRegressor("laplace", RBF(1.0), optimizer=None).fit(X[rows], y[rows])
    assert close(one.predict(X), two.predict(X), 1e-6)
    assert one.likelihood_ == two.likelihood_


@dataclass(frozen=True)
class WaitingTime(Likelihood):
    """Exponential waiting times with mean exp(f)."""

    def log_density(self, y, f):
        return -f - y * np.exp(-f)

    def derivatives(self, y, f):
        rest = y * np.exp(-f)
        return Derivatives(rest - 1.0, -rest, rest)

    def conditional_mean(self, f):
        return np.exp(f)


def test_every_likelihood_of_one_latent_value_goes_by_its_name():
    X, y = np.linspace(0, 1, 8)[:, None], np.array([0.0, 1, 0, 0, 1, 1, 0, 1])  # numbers, counts and classes
    for name, kind in BY_NAME.items():
        model = GeneralizedGPRegressor(name, RBF(1.0), optimizer=None)
        if kind.is_joint:
            with pytest.raises(ValueError, match="The 'likelihood' parameter"):
                model.fit(X, y)
        else:
            assert isinstance(model.fit(X, y).likelihood_, kind)


def test_ones_own_likelihood():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, (80, 1))
    y = rng.exponential(np.exp(np.sin(X[:, 0])))
    model = GeneralizedGPRegressor(WaitingTime(), RBF(1.0)).fit(X, y)
    assert np.corrcoef(model.predict(X), np.exp(np.sin(X[:, 0])))[0, 1] > 0.8


@pytest.mark.parametrize("method", ["exact", "low_rank"])
def test_a_given_matrix_is_the_kernel(method):
    X, y = smooth()
    kernel, rank = RBF(1.0), None if method == "exact" else len(y)
    made = GeneralizedGPRegressor("huber", kernel, method=method, rank=rank, optimizer=None).fit(X, y)
    given = GeneralizedGPRegressor("huber", "precomputed", method=method, rank=rank, optimizer=None)
    given.fit(kernel(X), y)
    assert close(given.predict(kernel(X[:4] + 0.1, X)), made.predict(X[:4] + 0.1), 1e-5)
    with pytest.raises(ValueError, match="precomputed"):
        given.sample_y(kernel(X))


def test_a_search_ranks_by_the_evidence():
    X, y, *_ = with_outliers(0, n=60)
    search = KernelSearchCV(GeneralizedGPRegressor(), {"likelihood": ["gaussian", "student_t"]}).fit(X, y)
    assert search.best_params_ == {"likelihood": "student_t"}
    with pytest.raises(ValueError, match="different criteria"):
        KernelSearchCV(GeneralizedGPRegressor(), {"likelihood": ["poisson", "student_t"]}).fit(X, y)


def test_priors_are_in_the_units_of_the_targets():
    X, y = smooth()
    prior = {"signal_variance": invgamma(1e5, scale=4e9)}  # narrow around 4e4
    model = GeneralizedGPRegressor("huber", RBF(1.0), priors=prior).fit(X, 100.0 * y)
    assert model.signal_variance_ == pytest.approx(4e4, rel=0.02)


def test_pickles_predict_the_same():
    X, y = smooth()
    model = GeneralizedGPRegressor(Laplace(scale=0.3), RBF(1.0), optimizer=None).fit(X, y)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    assert model.likelihood_.scale == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("likelihood", "y", "message"),
    [
        ("poisson", np.array([1.0, -1.0, 2.0]), "negative target -1"),
        ("poisson", np.array([1.0, 0.5, 2.0]), "got 0.5"),
        ("student_t", np.array([1.0, np.nan, 2.0]), "NaN"),
        (Categorical(), np.array([0.0, 1.0, 2.0]), "SpectralGPClassifier"),
        ("categorical", np.array([0.0, 1.0, 2.0]), "likelihood"),
    ],
)
def test_bad_input_is_refused(likelihood, y, message):
    with pytest.raises(ValueError, match=message):
        GeneralizedGPRegressor(likelihood).fit(np.arange(3.0)[:, None], y)


@pytest.mark.parametrize("likelihood", [Huber(), StudentT(), Laplace(), Poisson()])
@pytest.mark.parametrize("y", [np.zeros(5), np.full(1, 3.0), np.array([0.0, 0.0, 1e8, 0.0])])
def test_extremes_are_answered_with_numbers(likelihood, y):
    X = np.arange(len(y), dtype=float)[:, None]
    model = GeneralizedGPRegressor(likelihood, RBF(1.0)).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
