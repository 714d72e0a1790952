"""Correlated outputs against the dense Kronecker system, and what their covariances must be like."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import close
from reference import rbf
from reference_outputs import Dense, leave_one_out
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skspectral import KernelSearchCV, SpectralGPRegressor, UndeterminedVarianceWarning
from skspectral.criteria.joint_evidence import JointEvidence, from_pairs, pairs, to_pairs
from skspectral.inference.correlated import _Complete, solve_correlated
from skspectral.inference.covariances import minimize_covariances
from skspectral.linalg.covariance_pair import CovariancePair, Units
from skspectral.linalg.output_basis import OutputBasis
from skspectral.linalg.spectrum import Spectrum


def problem(seed=0, n=40, m=3, rank=None, noise=0.5):
    """Return X, K and outputs whose signals and noise are correlated."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    K = rbf(X)
    signals = np.linalg.cholesky(K + 1e-10 * np.eye(n)) @ rng.normal(size=(n, rank or m))
    Y = signals @ rng.normal(size=(m, rank or m)).T + noise * rng.normal(size=(n, m)) @ rng.normal(
        size=(m, m)
    )
    return X, K, Y + np.arange(m), rng.uniform(0.5, 2.0, n)


def model(**params):
    return SpectralGPRegressor(RBF(1.0), **({"outputs": "correlated", "optimizer": None} | params))


def dense_of(gp, K, Y, weight=None):
    F = np.ones((len(Y), 1)) if gp.fit_intercept else None
    return Dense(K, Y, gp.signal_covariance_, gp.noise_covariance_, F, weight)


both = pytest.mark.parametrize("fit_intercept", [True, False])


@both
@pytest.mark.parametrize("weighted", [True, False])
def test_evidence_and_predictions_are_those_of_the_kronecker_system(fit_intercept, weighted):
    X, K, Y, w = problem()
    weight = w if weighted else None
    gp = model(fit_intercept=fit_intercept).fit(X, Y, weight)
    dense = dense_of(gp, K, Y, weight)
    assert gp.log_marginal_likelihood_value_ == pytest.approx(dense.log_evidence(), rel=1e-8)
    X_new = np.random.default_rng(1).uniform(-3, 3, (6, 2))
    mean, std = gp.predict(X_new, return_std=True)
    latent = gp.predict_output_cov(X_new, include_noise=False)
    noisy = gp.predict_output_cov(X_new)
    k_new, f_new = rbf(X_new, X), np.ones(1) if fit_intercept else None
    expected = [dense.predict(k, 1.0, f_new) for k in k_new]
    assert close(mean, np.stack([e[0] for e in expected]))
    assert close(latent, np.stack([e[1] for e in expected]))
    assert close(noisy - latent, np.broadcast_to(gp.noise_covariance_, latent.shape))
    assert close(std**2, np.einsum("njj->nj", noisy))
    assert close(gp.predict(X_new), mean)


def test_variances_are_the_diagonals_of_the_covariances():
    X, _, Y, _ = problem()
    gp = model().fit(X, Y)
    assert (gp.signal_variance_ == np.diag(gp.signal_covariance_)).all()
    assert (gp.noise_variance_ == np.diag(gp.noise_covariance_)).all()


@both
def test_leave_one_out_is_that_of_refitted_kronecker_systems(fit_intercept):
    X, K, Y, w = problem(n=15, m=2)
    gp = model(fit_intercept=fit_intercept).fit(X, Y, w)
    F = np.ones((15, 1)) if fit_intercept else None
    mean, variance = leave_one_out(K, Y, gp.signal_covariance_, gp.noise_covariance_, F, w)
    loo_mean, loo_std = gp.loo_predict(return_std=True)
    assert close(loo_mean, mean)
    assert close(loo_std**2, variance)


@both
def test_a_factor_is_the_kronecker_system_of_its_matrix(fit_intercept):
    X, _, Y, w = problem(n=50)
    gp = model(fit_intercept=fit_intercept, method="low_rank", rank=12).fit(X, Y, w)
    decomposition = gp._fitted.decomposition
    Phi = decomposition.feature_map(gp._fitted.gram, X)
    K = Phi @ Phi.T
    dense = dense_of(gp, K, Y, w)
    assert gp.log_marginal_likelihood_value_ == pytest.approx(dense.log_evidence(), rel=1e-8)
    F_new = np.ones(1) if fit_intercept else None
    expected = np.stack([dense.predict(k, 1.0, F_new)[0] for k in K[:5]])
    assert close(gp.predict(X[:5]), expected)
    lower, upper = gp.evidence_bounds_
    exact = dense_of(gp, rbf(X), Y, w).log_evidence()
    assert lower <= exact <= upper


def random_point(seed=0, r=12, k=3):
    rng = np.random.default_rng(seed)
    s, count = rng.uniform(0, 5, r), np.append(np.ones(r - 1), 4.0)
    Vg, Ve = (B @ B.T for B in rng.normal(size=(2, k, k)))
    return s, count, rng.normal(size=(r, k)), Vg, Ve


def value_at(s, count, Y, Vg, Ve):
    start = CovariancePair(np.eye(len(Vg)), np.eye(len(Vg)), *np.full((2, len(Vg)), 0.5))
    pair = start.with_factors(*np.linalg.cholesky([Vg, Ve]))
    return JointEvidence(s, count, Y @ pair.forth.T, *pair.parts, pair.log_det), pair


def test_slopes_and_curvature_are_those_of_differences():
    s, count, Y, Vg, Ve = random_point()
    evidence, basis = value_at(s, count, Y, Vg, Ve)
    h, k = 1e-4, 3
    units = [from_pairs(unit, k) for unit in np.eye(len(pairs(k)[0]))]
    steps = [(basis.back @ B @ basis.back.T, 0) for B in units]
    steps += [(0, basis.back @ B @ basis.back.T) for B in units]

    def at(*moves):
        G = sum(h * sign * steps[i][0] for i, sign in moves)
        E = sum(h * sign * steps[i][1] for i, sign in moves)
        return value_at(s, count, Y, Vg + G, Ve + E)[0].value

    p = len(steps)
    slope = [(at((i, 1)) - at((i, -1))) / (2 * h) for i in range(p)]
    assert close(np.concatenate([to_pairs(M) for M in evidence.slopes()]), slope, 1e-6)
    hessian = [
        [
            (at((i, 1), (j, 1)) - at((i, 1), (j, -1)) - at((i, -1), (j, 1)) + at((i, -1), (j, -1)))
            / (4 * h**2)
            for j in range(p)
        ]
        for i in range(p)
    ]
    assert close(2 * evidence.shown() - evidence.expected(), hessian, 1e-5)


def test_expected_curvature_is_that_of_the_trace():
    s, count, Y, Vg, Ve = random_point()
    evidence, basis = value_at(s, count, Y, Vg, Ve)
    units = [basis.back @ from_pairs(unit, 3) @ basis.back.T for unit in np.eye(6)]
    total = 0.0
    for si, c in zip(s, count, strict=True):
        moves = [np.linalg.solve(si * Vg + Ve, V) for V in [si * B for B in units] + units]
        total = total + c * np.array([[np.trace(a @ b) for b in moves] for a in moves])
    assert close(evidence.expected(), total)


def test_a_step_of_scoring_solves_with_the_expected_curvature():
    evidence, _ = value_at(*random_point())
    slope = np.concatenate([to_pairs(M) for M in evidence.slopes()])
    step = np.concatenate([M[pairs(3)] for M in evidence.scoring_step()])
    assert close(evidence.expected() @ step, -slope)


def test_scoring_moves_the_noise_alone_where_a_kernel_is_the_identity():
    _, count, Y, Vg, Ve = random_point()
    evidence, _ = value_at(np.ones(12), count, Y, Vg, Ve)
    G, E = evidence.scoring_step()
    assert not G.any()
    assert np.isfinite(E).all()


@pytest.mark.parametrize("part", [0, 1])
def test_a_pair_keeps_singular_covariances(part):
    rng = np.random.default_rng(part)
    factors = list(rng.normal(size=(2, 4, 4)))
    factors[part][:, 2:] = 0.0
    start = CovariancePair(np.eye(4), np.eye(4), *np.full((2, 4), 0.5))
    pair = start.with_factors(*factors)
    assert close(np.stack(pair.covariances), np.stack([F @ F.T for F in factors]))
    assert close(pair.signal + pair.noise, np.ones(4))
    assert close(pair.forth @ pair.back, np.eye(4))
    assert (pair.parts[part] < 1e-28).sum() == 2


def test_a_pair_in_units_is_the_basis_it_came_from():
    rng = np.random.default_rng(0)
    back, units = rng.normal(size=(3, 3)), Units(0.01, 7.0)
    basis = OutputBasis(back, np.linalg.inv(back), np.array([100.0, 3.0, 0.0]))
    pair = CovariancePair.of_basis(basis, units)
    Vg, Ve = basis.signal_covariance, basis.noise_covariance
    assert close(np.stack(pair.covariances), np.stack([7.0 * Vg, Ve - 0.01 * Vg]))
    assert close(pair.basis(units).signal, basis.signal)
    assert close(pair.basis(units).back, back)


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_the_search_leaves_starts_without_signal_or_noise(noise):
    _, K, Y, _ = problem(n=40, m=2, noise=1.0)
    s, U = np.linalg.eigh(K)
    complete = _Complete(s + 0.01, np.ones(40), U.T @ Y)

    def value(noise):
        start = CovariancePair(np.eye(2), np.eye(2), *np.outer([1.0 - noise, noise], np.ones(2)))
        point, norm, status, _ = minimize_covariances(complete, start)
        assert norm < 1e-6
        assert status == "interior"
        return point.value

    assert value(noise) == pytest.approx(value(0.5), abs=1e-8)


@pytest.mark.parametrize("n", [8, 12, 20])
@pytest.mark.parametrize(("noise", "rank"), [(1e-3, None), (1e-3, 1), (0.3, None)])
def test_few_rows_with_little_noise_end_at_a_minimum(n, noise, rank):
    for seed in range(3):
        _, K, Y, _ = problem(seed, n=n, m=4, rank=rank, noise=noise)
        result = solve_correlated(Spectrum.from_gram(K, np.ones((n, 1))).rotate(Y)).result
        assert result.status != "not_converged"
        assert result.gradient_norm < 1e-6
        assert result.n_evaluations < 100


@pytest.mark.parametrize(("seed", "rank"), [(0, None), (1, 1), (2, 2)])
def test_no_better_covariances_are_found_by_a_general_minimiser(seed, rank):
    X, K, Y, _ = problem(seed, n=20, m=2, rank=rank)
    gp = model().fit(X, Y)
    F, lower = np.ones((20, 1)), np.tril_indices(2)

    def negative(values):
        factors = np.zeros((2, 2, 2))
        factors[0][lower], factors[1][lower] = values[:3], values[3:]
        Vg, Ve = (L @ L.T + 1e-12 * np.eye(2) for L in factors)
        return -Dense(K, Y, Vg, Ve, F).log_evidence()

    rng = np.random.default_rng(seed)
    ends = [
        minimize(negative, rng.normal(size=6), method="BFGS", options={"gtol": 1e-5}).fun for _ in range(2)
    ]
    assert gp.log_marginal_likelihood_value_ >= -min(ends) - 1e-6
    assert gp.covariance_tuning_.gradient_norm < 1e-6


def test_the_search_ends_where_it_began_if_outputs_are_one():
    X, _, Y, w = problem(m=1)
    one, alone = model().fit(X, Y, w), model(outputs="independent").fit(X, Y, w)
    assert one.log_marginal_likelihood_value_ == pytest.approx(
        alone.log_marginal_likelihood_value_, rel=1e-12
    )
    assert one.signal_covariance_[0, 0] == pytest.approx(alone.signal_variance_[0], rel=1e-6)
    flat = model().fit(X, Y[:, 0], w)
    assert flat.signal_covariance_.shape == (1, 1)
    assert flat.predict(X).shape == (40,)


@settings(max_examples=8)
@given(st.integers(0, 10**6), st.integers(2, 3), st.floats(-3, 3))
def test_outputs_may_be_mixed_scaled_and_shifted(seed, m, log_size):
    X, _, Y, _ = problem(seed % 50, n=25, m=m)
    rng = np.random.default_rng(seed)
    M = rng.normal(size=(m, m)) + 3 * np.eye(m)
    M *= 10**log_size
    first, second = model().fit(X, Y), model().fit(X, Y @ M.T + 5.0 * 10**log_size)
    gain = second.log_marginal_likelihood_value_ - first.log_marginal_likelihood_value_
    # another start may find another maximum; where it is the same one, everything is
    if abs(gain + 24 * np.linalg.slogdet(M)[1]) < 1e-6:
        expected = M @ first.signal_covariance_ @ M.T
        assert np.abs(second.signal_covariance_ - expected).max() < 1e-3 * np.abs(expected).max()
        assert close(second.predict(X), first.predict(X) @ M.T + 5.0 * 10**log_size, 1e-4)


def test_rows_may_be_permuted_and_weights_scaled():
    X, _, Y, w = problem()
    order = np.random.default_rng(0).permutation(len(X))
    first, second = model().fit(X, Y, w), model().fit(X[order], Y[order], 7.0 * w[order])
    assert close(second.signal_covariance_, first.signal_covariance_, 1e-6)
    assert close(second.noise_covariance_, 7.0 * first.noise_covariance_, 1e-6)
    assert close(second.predict(X), first.predict(X), 1e-6)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_units_of_the_targets_do_not_matter(scale):
    X, _, Y, _ = problem()
    first, second = model().fit(X, Y), model().fit(X, scale * Y)
    assert close(second.predict(X) / scale, first.predict(X), 1e-6)


def test_signals_of_lower_rank_are_found():
    X, _, Y, _ = problem(3, n=120, m=4, rank=1)
    gp = model().fit(X, Y)
    result = gp.covariance_tuning_
    assert result.status == "low_rank"
    assert result.signal_rank < 4
    assert np.linalg.matrix_rank(gp.signal_covariance_, tol=1e-8) == result.signal_rank
    assert result.gradient_norm < 1e-6


def test_an_output_without_signal_gets_one_that_others_share():
    rng = np.random.default_rng(1)
    X = np.linspace(0, 10, 80)[:, None]
    signal, noise = np.sin(X[:, 0]), rng.normal(size=80)
    # alone, the second output is pure noise; the noise that it shares with the first shows its signal
    Y = np.column_stack([noise + 0.05 * signal, noise]) + 0.01 * rng.normal(size=(80, 2))
    gp = model().fit(X, Y)
    assert gp.tuning_[0].status == gp.tuning_[1].status == "pure_noise"
    contrast = np.array([1.0, -1.0])
    assert contrast @ gp.signal_covariance_ @ contrast > 1e-5
    assert gp.log_marginal_likelihood_value_ > sum(r.value for r in gp.tuning_) + 10


@pytest.mark.filterwarnings("ignore::skspectral.NoiseResolutionWarning")
def test_outputs_without_noise_end_at_what_rounding_resolves():
    X = np.linspace(0, 6, 30)[:, None]
    Y = np.column_stack([np.sin(X[:, 0]), np.cos(X[:, 0])])
    gp = model().fit(X, Y)
    assert gp.covariance_tuning_.status == "noise_free"
    assert np.abs(gp.predict(X) - Y).max() < 1e-4
    mean, std = gp.predict([[2.5]], return_std=True)
    assert np.abs(mean - [np.sin(2.5), np.cos(2.5)]).max() < 1e-3
    assert np.isfinite(std).all()


@pytest.mark.parametrize("n", [1, 2, 6])
def test_few_rows_constant_outputs_and_sums_of_outputs_are_answered(n):
    X, _, Y, _ = problem(n=n, m=2)
    Y = np.column_stack([Y, Y.sum(axis=1), np.full(n, 3.0), Y[:, 0]])
    with pytest.warns(UndeterminedVarianceWarning):
        gp = model().fit(X, Y)
    mean, std = gp.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    determined = [result.status != "undetermined" for result in gp.tuning_]
    assert not determined[3]
    assert (np.isfinite(std) == determined).all()
    assert np.abs(mean[:, 3] - 3.0).max() < 1e-10
    assert close(mean[:, 2], mean[:, 0] + mean[:, 1], 1e-6)
    assert gp.log_marginal_likelihood_value_ == (np.inf if n > 1 else 0.0)
    assert np.isfinite(gp.covariance_tuning_.value)
    with pytest.raises(ValueError, match="no distribution to draw from"):
        gp.sample_y(X, 2)


def test_standard_errors_are_those_of_the_information_matrix():
    X, K, Y, _ = problem(4, n=60, m=2, noise=1.0)
    gp = model().fit(X, Y)
    F, lower = np.ones((60, 1)), np.tril_indices(2)
    best = np.concatenate([gp.signal_covariance_[lower], gp.noise_covariance_[lower]])

    def covariances(values):
        V = np.zeros((2, 2, 2))
        V[0][lower], V[1][lower] = values[:3], values[3:]
        return V + np.tril(V, -1).transpose(0, 2, 1)

    def log_evidence(values):
        return Dense(K, Y, *covariances(values), F).log_evidence()

    h = 1e-4 * np.eye(6) * np.abs(best)
    at = log_evidence
    information = -np.array(
        [
            [
                (at(best + a + b) - at(best + a - b) - at(best - a + b) + at(best - a - b))
                / (4 * a.sum() * b.sum())
                for b in h
            ]
            for a in h
        ]
    )
    cov = np.linalg.inv(information)

    def correlation(values, part):
        V = covariances(values)[part]
        return V[0, 1] / np.sqrt(V[0, 0] * V[1, 1])

    found = gp.output_correlations()
    for part, R, se in ((0, found.signal, found.signal_se), (1, found.noise, found.noise_se)):
        slope = np.array(
            [(correlation(best + a, part) - correlation(best - a, part)) / (2 * a.sum()) for a in h]
        )
        assert R[0, 1] == pytest.approx(correlation(best, part))
        assert se[0, 1] == pytest.approx(np.sqrt(slope @ cov @ slope), rel=1e-3)
        assert se[0, 0] == 0.0


@pytest.mark.parametrize("params", [{}, {"fit_intercept": False}, {"method": "low_rank", "rank": 15}])
def test_the_gradient_by_kernel_parameters_is_that_of_the_maximised_evidence(params):
    X, _, Y, w = problem(5)
    gp = SpectralGPRegressor(RBF([1.0, 1.0]), outputs="correlated", optimizer=None, **params).fit(X, Y, w)
    theta, h = np.array([0.1, 0.3]), 1e-5
    value, gradient = gp.log_marginal_likelihood(theta, eval_gradient=True)
    ends = [[gp.log_marginal_likelihood(theta + sign * step) for sign in (1, -1)] for step in h * np.eye(2)]
    assert close(gradient, [(up - down) / (2 * h) for up, down in ends], 1e-6)
    assert value == pytest.approx(gp.log_marginal_likelihood(theta), rel=1e-12)


@pytest.mark.parametrize("optimizer", ["default", "fmin_l_bfgs_b"])
def test_learned_lengths_maximise_the_joint_evidence(optimizer):
    X, _, Y, _ = problem(6)
    gp = SpectralGPRegressor(RBF(0.5), outputs="correlated", optimizer=optimizer).fit(X, Y)
    best = gp.log_marginal_likelihood_value_
    assert best == pytest.approx(gp.log_marginal_likelihood(gp.kernel_.theta), rel=1e-8)
    assert all(gp.log_marginal_likelihood(gp.kernel_.theta + step) < best for step in (-0.05, 0.05))


def test_samples_have_the_covariance_of_the_predictions():
    X, _, Y, _ = problem(n=20, m=2)
    gp = model().fit(X, Y)
    X_new = np.array([[0.0, 0.0], [2.5, 2.5]])
    draws = gp.sample_y(X_new, 20000, random_state=0)
    covariance = gp.predict_output_cov(X_new)
    for i in range(2):
        assert np.abs(np.cov(draws[i]) - covariance[i]).max() < 0.05 * np.abs(covariance[i]).max()
    assert np.abs(draws.mean(axis=2) - gp.predict(X_new)).max() < 0.05
    cov = gp.predict(X_new, return_cov=True)[1]
    assert np.abs(np.cov(draws[:, 0]) - cov[..., 0]).max() < 0.05 * np.abs(cov[..., 0]).max()


@pytest.mark.parametrize("include_noise", [True, False])
def test_given_outputs_of_a_row_predictions_are_conditional(include_noise):
    X, K, Y, _ = problem()
    gp = model().fit(X, Y)
    x_new, y_new = np.array([[0.3, -0.7]]), np.array([[0.2, np.nan, 1.0]])
    mean, std = gp.predict(x_new, return_std=True, include_noise=include_noise, y_observed=y_new)
    # the same by a Kronecker system with the row among the others, the mean as it was
    dense = dense_of(gp, K, Y)
    mu, latent = dense.predict(rbf(x_new, X)[0], 1.0, np.ones(1))
    o, wanted = [0, 2], latent + include_noise * gp.noise_covariance_
    gain = wanted[:, o] @ np.linalg.inv((latent + gp.noise_covariance_)[np.ix_(o, o)])
    assert close(mean[0], mu + gain @ (y_new[0, o] - mu[o]), 1e-7)
    assert close(
        std[0] ** 2, np.diag(wanted - gain @ wanted[o]) * ~(np.isin(np.arange(3), o) & include_noise), 1e-7
    )
    assert close(gp.predict(x_new, y_observed=np.full((1, 3), np.nan)), gp.predict(x_new))


def test_intervals_are_normal():
    X, _, Y, _ = problem()
    gp = model().fit(X, Y)
    mean, std = gp.predict(X, return_std=True)
    lower, upper = gp.predict_interval(X, coverage=0.95)
    assert close(upper - mean, 1.959963984540054 * std)
    assert close(mean - lower, 1.959963984540054 * std)


def test_independent_outputs_have_no_covariances():
    X, _, Y, _ = problem()
    gp = model(outputs="independent").fit(X, Y)
    assert gp.signal_covariance_ is gp.noise_covariance_ is gp.covariance_tuning_ is None
    for call in (
        gp.output_correlations,
        lambda: gp.predict_output_cov(X),
        lambda: gp.predict(X, y_observed=Y),
    ):
        with pytest.raises(ValueError, match="outputs='correlated'"):
            call()


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"criterion": "gcv"}, "criterion='evidence'"),
        ({"inference": "integrate"}, "inference='maximize'"),
        ({"kernel": RBF() + WhiteKernel(0.1, "fixed")}, "noise variance at 0.1"),
        ({"kernel": ConstantKernel(2.0, "fixed") * RBF() + WhiteKernel()}, "signal variance at 2"),
    ],
)
def test_what_cannot_be_combined_is_refused(params, match):
    X, _, Y, _ = problem()
    with pytest.raises(ValueError, match=match):
        model().set_params(**params).fit(X, Y)


def test_bad_observed_outputs_are_refused():
    X, _, Y, _ = problem()
    gp = model().fit(X, Y)
    with pytest.raises(ValueError, match=r"shape \(40, 2\), expected \(40, 3\)"):
        gp.predict(X, y_observed=Y[:, :2])
    with pytest.raises(ValueError, match="return_std instead"):
        gp.predict(X, return_cov=True, y_observed=Y)
    with pytest.raises(ValueError, match="outputs='independent'"):
        gp.to_sklearn()


def test_a_search_ranks_kernels_by_the_joint_evidence():
    X, _, Y, _ = problem(7, n=50)
    search = KernelSearchCV(model(), {"kernel": [RBF(0.3), RBF(1.0), RBF(3.0)]}).fit(X, Y)
    values = [
        clone(model()).set_params(kernel=k).fit(X, Y).log_marginal_likelihood_value_
        for k in (RBF(0.3), RBF(1.0), RBF(3.0))
    ]
    assert close(search.cv_results_["mean_test_score"], values)


@pytest.mark.slow
def test_thirty_outputs_take_few_evaluations():
    _, K, Y, _ = problem(8, n=250, m=30, rank=4, noise=0.2)
    solution = solve_correlated(Spectrum.from_gram(K, np.ones((250, 1))).rotate(Y))
    assert solution.result.gradient_norm < 1e-5
    assert solution.result.n_evaluations < 100
