"""Averages over learned kernel parameters: the design, its weights, and the mixture of models."""

from itertools import combinations

import numpy as np
import pytest
from problems import close, smooth
from reference import reml
from scipy import stats
from sklearn.gaussian_process.kernels import RBF, ExpSineSquared, Matern

from skspectral import SpectralGPRegressor
from skspectral.learning import design

MEMBER = {"optimizer": None, "inference": "integrate"}


@pytest.fixture(scope="module")
def data():
    X, Y = smooth(n=15, p=1, m=2)
    return X, Y


@pytest.fixture(scope="module")
def gp(data):
    return SpectralGPRegressor(RBF(1.0), inference="integrate").fit(*data)


@pytest.fixture(scope="module")
def members(gp, data):
    return [
        SpectralGPRegressor(RBF(length[0]), **MEMBER).fit(*data) for length in gp.kernel_posterior_.parameters
    ]


X_NEW = np.array([[0.3], [1.9], [4.0]])


@pytest.mark.parametrize("p", range(2, 13))
def test_the_design_has_the_moments_of_a_normal_density(p):
    z, share = design.composite_design(p)
    assert share.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(share @ z, 0.0, atol=1e-12)
    np.testing.assert_allclose((z * share[:, None]).T @ z, np.eye(p), atol=1e-12)
    assert (z[0] == 0).all()


@pytest.mark.parametrize("p", range(2, 12))
def test_corners_do_not_confound_pairs_of_parameters(p):
    corners = design._corners(p)
    assert set(np.unique(corners)) == {-1.0, 1.0}
    for size in range(1, min(p, 4) + 1):
        for chosen in combinations(range(p), size):
            assert corners[:, chosen].prod(axis=1).sum() == 0


def test_points_of_a_normal_density_give_its_mean_and_covariance(monkeypatch):
    mean, covariance = np.array([0.3, -1.0, 2.0]), np.diag([0.04, 0.01, 0.09]) + 0.005
    h, V = np.linalg.eigh(np.linalg.inv(covariance))
    monkeypatch.setattr(design, "_axes", lambda task, theta: V / np.sqrt(h))

    class Task:
        kernel = RBF([1.0, 1.0, 1.0])

    points, weight = design.explore(Task(), mean, stats.multivariate_normal(mean, covariance).logpdf)
    assert close(weight @ points, mean)
    assert close(np.cov(points.T, aweights=weight, ddof=0), covariance)


class _Lengths:
    """A task of three lengths within (1e-5, 1e5)."""

    kernel = RBF([1.0, 1.0, 1.0])


@pytest.mark.parametrize(
    ("wide", "short", "shorter", "expected"),
    [
        (4.0, 5.0, None, 0.5),  # both steps agree: the wide one
        (4.0, 100.0, 90.0, 0.1),  # the wide step passed by, the short one did not
        (4.0, 100.0, 26.0, 0.1),
        (4.0, 100.0, 390.0, 0.1),
        (4.0, 100.0, 410.0, 0.0),  # nor does the short one see the maximum
        (4.0, 100.0, 24.0, 0.0),
        (4.0, 100.0, -90.0, 0.0),
        (0.5, 3.0, 3.0, 1.0 / np.sqrt(3.0)),
        (0.1, 0.9, None, 1.0),  # flat
        (-2.0, 0.5, None, 0.0),  # no maximum over either step
        (-2.0, 1.5, 1.5, 1.0 / np.sqrt(1.5)),
        (-0.5, 0.5, None, 1.0),
    ],
)
def test_axes_are_those_of_the_step_that_sees_a_maximum(wide, short, shorter, expected, monkeypatch):
    """Of the second parameter; those beside it have curvatures of 4 and 16, and all are coupled."""
    by_step = {0.05: wide, 5e-4: short, 1.25e-4: shorter}

    def curvature(task, theta, k, step):
        row = np.full(3, 1e-9)
        row[k] = (4.0, by_step[step], 16.0)[k]
        return row

    monkeypatch.setattr(design, "_curvature", curvature)
    axes = design._axes(_Lengths(), np.zeros(3))
    assert np.sqrt((axes**2).sum(axis=1)) == pytest.approx([0.5, expected, 0.25], rel=1e-6, abs=1e-12)
    assert (axes[1] == 0).all() == (expected == 0)


def test_what_is_known_has_no_part_in_the_weights_of_a_design(monkeypatch):
    axes = np.diag([0.2, 0.0])
    monkeypatch.setattr(design, "_axes", lambda task, theta: axes)

    class Task:
        kernel = RBF([1.0, 1.0])

    points, weight = design.explore(Task(), np.zeros(2), lambda theta: -0.5 * (theta[0] / 0.2) ** 2)
    assert (points[:, 1] == 0).all()
    _, share = design.composite_design(2)
    assert weight == pytest.approx(share)
    axes = np.zeros((2, 2))  # nothing to average
    points, weight = design.explore(Task(), np.ones(2), None)
    assert points.tolist() == [[1.0, 1.0]]
    assert weight.tolist() == [1.0]


def test_a_period_that_is_known_well_is_averaged_over_what_is_likely():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 60.0, (40, 1))
    y = np.sin(2 * np.pi * X[:, 0] / 1.3) + 0.3 * rng.normal(size=40)
    kernel = ExpSineSquared(1.0, 1.3, length_scale_bounds="fixed")
    for rows in (np.arange(40), rng.permutation(40)):
        posterior = SpectralGPRegressor(kernel, inference="integrate").fit(X[rows], y[rows]).kernel_posterior_
        periods, weight = posterior.parameters[:, 0], posterior.weight
        assert np.count_nonzero(weight > 0.01) > 4
        grid = np.linspace(1.28, 1.32, 401)
        fits = [SpectralGPRegressor(ExpSineSquared(1.0, p), optimizer=None).fit(X, y) for p in grid]
        density = np.exp([f.log_marginal_likelihood_value_ for f in fits])
        density /= density.sum()
        mean = density @ grid
        assert weight @ periods == pytest.approx(mean, abs=2e-4)
        assert np.sqrt(weight @ (periods - mean) ** 2) == pytest.approx(
            np.sqrt(density @ (grid - mean) ** 2), rel=0.2
        )


def test_predictions_are_those_of_the_mixture(gp, members):
    weight = gp.kernel_posterior_.weight
    assert weight.sum() == pytest.approx(1.0)
    for noise in (True, False):
        means, stds = zip(
            *(m.predict(X_NEW, return_std=True, include_noise=noise) for m in members), strict=True
        )
        mean = np.tensordot(weight, means, 1)
        variance = np.tensordot(weight, np.square(stds) + (means - mean) ** 2, 1)
        found = gp.predict(X_NEW, return_std=True, include_noise=noise)
        assert close(found[0], mean)
        assert close(found[1], np.sqrt(variance))
        covariance = gp.predict(X_NEW, return_cov=True, include_noise=noise)[1]
        assert close(np.einsum("iim->im", covariance), variance)
    assert close(gp.predict(X_NEW), mean)


def test_intervals_leave_out_the_tails_of_the_mixture(gp, members):
    lower, upper = gp.predict_interval(X_NEW, 0.9)
    for j in range(2):
        for end, tail in ((lower[:, j], 0.05), (upper[:, j], 0.95)):
            below = 0.0
            for p, member in zip(gp.kernel_posterior_.weight, members, strict=True):
                below = below + p * member._fitted.mixtures(X_NEW, True)[j]._distribution(end)
            np.testing.assert_allclose(below, tail, atol=1e-5)


def test_samples_have_the_moments_of_the_mixture(gp):
    draws = gp.sample_y(X_NEW, 4000, random_state=0)
    mean, std = gp.predict(X_NEW, return_std=True)
    assert draws.shape == (3, 2, 4000)
    assert (np.abs(draws.mean(axis=2) - mean) < 5 * std / np.sqrt(4000)).all()
    np.testing.assert_allclose(draws.std(axis=2), std, rtol=0.15)


def test_probabilities_are_those_of_brute_force():
    X, y = smooth(n=12, p=1)
    gp = SpectralGPRegressor(RBF(1.0), inference="integrate").fit(X, y)
    chosen = gp.kernel_posterior_.weight.argsort()[-3:]
    log_ratio, log_signal = np.meshgrid(np.linspace(-14, 10, 121), np.linspace(-9, 16, 126))
    mass = []
    for length in gp.kernel_posterior_.parameters[chosen, 0]:
        K, F = RBF(length)(X), np.ones((12, 1))
        A = np.linalg.qr(np.column_stack([F, np.eye(12)[:, 1:]]))[0][:, 1:]
        s, V = np.linalg.eigh(A.T @ K @ A)
        y_tilde = V.T @ A.T @ y
        d = np.exp(log_signal)[..., None] * (np.maximum(s, 0.0) + np.exp(log_ratio)[..., None])
        log_density = -0.5 * (np.log(d) + y_tilde**2 / d).sum(axis=-1)
        at = np.exp([log_ratio[60, 60] + log_signal[60, 60], log_signal[60, 60]])
        constant = 0.5 * 11 * np.log(2 * np.pi)
        assert log_density[60, 60] - constant == pytest.approx(reml(K, y, F, *at), rel=1e-6)
        mass.append(np.exp(log_density).sum())
    expected = np.array(mass) / np.sum(mass)
    found = gp.kernel_posterior_.weight[chosen]
    np.testing.assert_allclose(found / found.sum(), expected, rtol=0.02)


def test_a_prior_counts_with_its_density_by_the_logarithm():
    X, y = smooth(n=12, p=1)
    prior = stats.gamma(3.0, scale=0.4)
    gp = SpectralGPRegressor(RBF(1.0), inference="integrate", priors={"length_scale": prior}).fit(X, y)
    lengths, weight = gp.kernel_posterior_.parameters[:, 0], gp.kernel_posterior_.weight
    members = [SpectralGPRegressor(RBF(length), **MEMBER).fit(X, y) for length in lengths]
    log_weight = np.array([m._fitted.averaged.log_evidence[0] for m in members])
    log_weight += prior.logpdf(lengths) + np.log(lengths)
    expected = np.exp(log_weight - log_weight.max())
    assert close(weight, expected / expected.sum(), 1e-6)


def test_variances_are_pooled_over_kernels(gp, members):
    for j, posterior in enumerate(gp.variance_posterior_):
        assert posterior.weight.sum() == pytest.approx(1.0)
        assert (np.diff(posterior.noise_ratio) >= 0).all()
        expected = sum(
            p * (m.variance_posterior_[j].weight @ m.variance_posterior_[j].noise_variance)
            for p, m in zip(gp.kernel_posterior_.weight, members, strict=True)
        )
        assert posterior.weight @ posterior.noise_variance == pytest.approx(expected)


@pytest.mark.parametrize("name", ["noise", "signal"])
def test_intervals_of_variances_are_quantiles(gp, name):
    posterior = gp.variance_posterior_[0]
    scale = getattr(posterior, f"{name}_variance")
    nu = posterior.degrees_of_freedom
    for value, tail in zip(getattr(posterior, f"{name}_interval")(0.9), (0.05, 0.95), strict=True):
        assert stats.chi2(nu).sf(nu * scale / value) @ posterior.weight == pytest.approx(tail, abs=1e-9)
    with pytest.raises(ValueError, match="strictly between"):
        getattr(posterior, f"{name}_interval")(1.0)


def test_gradients_of_the_mixture(gp):
    mean, std = gp.predict_gradient(X_NEW, return_std=True)
    (m1, s1), (m0, s0) = (gp.predict(X_NEW + h, return_std=True) for h in (1e-5, -1e-5))
    assert close(mean[:, 0], (m1 - m0) / 2e-5, 1e-6)
    assert close(std[:, 0], (s1 - s0) / 2e-5, 1e-6)


def test_coefficients_of_the_mean_vary_with_the_kernel():
    X, Y = smooth(n=40, p=1, m=2)  # with fewer rows the best length is beyond what rounding resolves
    gp = SpectralGPRegressor(RBF(1.0), inference="integrate", basis="linear").fit(X, Y)
    known = SpectralGPRegressor(gp.kernel_, basis="linear", **MEMBER).fit(X, Y)
    pairs = zip(gp.mean_summary(), known.mean_summary(), strict=True)
    assert all((one.standard_errors > 0).all() and len(one.names) == len(other.names) for one, other in pairs)


def test_several_parameters_and_their_cost():
    X, y = smooth(n=25, p=2)
    gp = SpectralGPRegressor(Matern([1.0, 1.0], nu=2.5), inference="integrate").fit(X, y)
    posterior = gp.kernel_posterior_
    assert posterior.names == ("length_scale[0]", "length_scale[1]")
    assert 2 <= len(posterior.weight) <= 9
    np.testing.assert_allclose(posterior.parameters[0], gp.kernel_.length_scale)
    plain = SpectralGPRegressor(Matern([1.0, 1.0], nu=2.5)).fit(X, y)
    assert gp.n_decompositions_ <= plain.n_decompositions_ + 4 + 8
    _, wide = gp.predict(X, return_std=True)
    _, narrow = plain.predict(X, return_std=True)
    assert np.median(wide) > np.median(narrow)


@pytest.mark.filterwarnings("ignore::skspectral.UndeterminedVarianceWarning")
def test_known_parameters_and_constant_targets_are_not_averaged_over():
    X, y = smooth(n=12, p=1)
    assert SpectralGPRegressor(RBF(1.0), **MEMBER).fit(X, y).kernel_posterior_ is None
    constant = SpectralGPRegressor(RBF(1.0), inference="integrate").fit(X, np.ones(12))
    assert constant.kernel_posterior_ is None
    assert SpectralGPRegressor(RBF(1.0)).fit(X, y).kernel_posterior_ is None


def test_weights_of_zero_leave_rows_out():
    X, y = smooth(n=14, p=1)
    weight = np.ones(14)
    weight[[2, 7]] = 0.0
    one = SpectralGPRegressor(RBF(1.0), inference="integrate").fit(X, y, sample_weight=weight)
    other = SpectralGPRegressor(RBF(1.0), inference="integrate").fit(X[weight > 0], y[weight > 0])
    assert close(one.predict(X_NEW), other.predict(X_NEW), 1e-5)
    assert close(one.kernel_posterior_.weight, other.kernel_posterior_.weight, 1e-4)


@pytest.mark.parametrize("level", [-1e4, 1e4])
def test_a_grid_ends_where_the_density_is_negligible_on_both_sides(level):
    points, values = design._grid(np.zeros(1), np.eye(1), lambda theta: level - 0.5 * theta[0] ** 2)
    order = np.argsort(points[:, 0])
    below = values[order] < level + design._NEGLIGIBLE
    assert below[[0, -1]].all()
    assert not below[1:-1].any()


@pytest.mark.parametrize("outside", [[0.0, 3.0], [3.0, 0.0], [-3.0, 0.0], [0.0, -3.0]])
def test_one_parameter_beyond_its_bound_is_enough_for_no_density(outside):
    density = design._Bounded(lambda theta: 1.0, np.array([[-1.0, 1.0], [-2.0, 2.0]]))
    assert density(np.array([1.0, -2.0])) == 1.0
    assert density(np.array(outside)) == -np.inf
