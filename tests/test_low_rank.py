"""Factors of the kernel matrix, the certificate on the log evidence, and estimators on the low-rank route."""

from types import SimpleNamespace

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from problems import close, smooth
from scipy import sparse
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel

from skspectral import (
    IndefiniteKernelError,
    LowRankWarning,
    SpectralGPRegressor,
    SpectralKernelRidge,
    Spectrum,
)
from skspectral.criteria import CRITERIA
from skspectral.decomposition import certificate, decompose, plan
from skspectral.decomposition.certificate import _check_probes
from skspectral.decomposition.data import Data
from skspectral.inference.solution import solve, solve_fixed
from skspectral.kernels import gram
from skspectral.kernels.gram import KernelGram, PrecomputedGram, make_gram
from skspectral.linalg import factors

KERNELS = {
    "rbf": make_gram("rbf", {"gamma": 0.5}),
    "laplacian": make_gram("laplacian"),
    "polynomial": make_gram("polynomial", {"degree": 2}),
    "cosine": make_gram("cosine"),
    "callable": make_gram(lambda a, b: float(np.exp(-np.abs(a - b).sum()))),
    "sum of kernels": make_gram(RBF(0.7) + 0.3 * DotProduct()),
    "matern": make_gram(Matern(1.5, nu=1.5)),
}


def inputs(seed, n=60, p=2):
    return np.random.default_rng(seed).uniform(-2, 2, (n, p))


def weights_of(kind, n, seed=0):
    rng = np.random.default_rng(seed)
    drawn = {
        "none": None,
        "precisions": rng.uniform(0.1, 1.0, n),
        "with zeros": rng.uniform(0.1, 1.0, n) * (rng.uniform(size=n) < 0.8),
        "repeats": rng.choice([1.0, 2.0, 3.0], n),
    }
    return drawn[kind]


each_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())


@each_kernel
@pytest.mark.parametrize("rank", [1, 7, 40])
@pytest.mark.parametrize("weights", ["none", "with zeros"])
def test_what_the_pivots_miss_is_positive_with_trace_tau(kernel, rank, weights):
    X = inputs(1)
    w = weights_of(weights, len(X))
    K = kernel.square(X)
    factor = factors.pivoted_cholesky(kernel, X, rank=rank, weight=w)
    root = np.ones(len(X)) if w is None else np.sqrt(w)
    E = root[:, None] * (K - factor.Phi @ factor.Phi.T) * root
    size = np.trace(K)
    assert factor.rank <= rank
    assert np.linalg.eigvalsh(E)[0] >= -1e-12 * size
    assert factor.tau == pytest.approx(np.trace(E), abs=1e-12 * size)
    assert close(factor.L @ factor.L.T, kernel.block(X, factor.pivots), 1e-12)


@each_kernel
def test_the_factor_of_full_rank_is_the_matrix(kernel):
    X = inputs(2)
    K = kernel.square(X)
    factor = factors.pivoted_cholesky(kernel, X)
    assert close(factor.Phi @ factor.Phi.T, K, 1e-12)
    assert factor.tau <= 1e-12 * np.trace(K)


@each_kernel
def test_features_of_the_training_rows_are_phi(kernel):
    X = inputs(3)
    factor = factors.pivoted_cholesky(kernel, X, rank=10)
    assert close(factor.feature_map(kernel, X), factor.Phi, 1e-9)


@each_kernel
def test_sums_of_features_are_sums_of_kernel_values_with_landmarks(kernel):
    factor, new = factors.pivoted_cholesky(kernel, inputs(3), rank=10), inputs(9, n=7)
    features, weights = factor.feature_map, np.random.default_rng(0).normal(size=(factor.rank, 2))
    sums = features.values(kernel, new) @ features.coefficients(weights)
    assert close(sums, features(kernel, new) @ weights, 1e-9)


@pytest.mark.parametrize("intercept", [True, False])
def test_predictions_of_a_factor_make_no_features(monkeypatch, intercept):
    X, y = smooth(12, n=80)
    model = SpectralGPRegressor(
        RBF(1.0), optimizer=None, method="low_rank", rank=8, fit_intercept=intercept
    ).fit(X, y)
    new = X[:5] + 0.1
    features = model._fitted.decomposition.feature_map(make_gram(RBF(1.0)), new)
    geometry = model.spectrum_.of_features.project(
        features, np.ones(5), np.ones((5, 1)) if intercept else None
    )
    solution = model._fitted.solution
    expected = features @ model.spectrum_.primal(solution.range_dual) + solution.beta.sum()
    monkeypatch.setattr(factors.FeatureMap, "__call__", None)
    mean, std = model.predict(new, return_std=True)
    assert close(mean, expected[:, 0], 1e-9)
    assert close(std**2, (solution.predictive_variance(*geometry) + solution.noise_var)[:, 0], 1e-9)
    assert close(model.predict(new), mean, 1e-12)


def test_a_precomputed_matrix_gives_the_factor_of_its_kernel():
    X, kernel = inputs(4), KERNELS["polynomial"]  # whose diagonal has no ties to break
    K, known = kernel.square(X), PrecomputedGram()
    ours, theirs = (factors.pivoted_cholesky(*pair, rank=12) for pair in ((known, K), (kernel, X)))
    assert np.array_equal(ours.pivots, theirs.pivots)
    assert close(ours.Phi, theirs.Phi, 1e-12)
    new = kernel.cross(inputs(5, n=7), X)
    assert close(ours.feature_map(known, new), theirs.feature_map(kernel, inputs(5, n=7)), 1e-10)


def test_the_trace_falls_below_tau_and_not_far_below():
    X, kernel = inputs(6, n=500), KERNELS["rbf"]
    loose, tight = (factors.pivoted_cholesky(kernel, X, tau=tau) for tau in (1.0, 1e-6))
    assert loose.tau <= 1.0
    assert tight.tau <= 1e-6
    assert loose.rank < tight.rank < 250


def test_pivots_of_a_large_factor_are_nearly_as_good_as_the_best_subspace():
    X, kernel = inputs(7, n=400), KERNELS["rbf"]
    factor = factors.pivoted_cholesky(kernel, X, rank=40)
    best = np.linalg.eigvalsh(kernel.square(X))[:-40].sum()
    assert factor.tau < 10 * best


def test_duplicates_and_repetition_stop_the_factor_early():
    X, kernel = np.repeat(inputs(8, n=9), 20, axis=0), KERNELS["laplacian"]
    factor = factors.pivoted_cholesky(kernel, X)
    assert factor.rank == 9
    assert len(np.unique(factor.pivots // 20)) == 9


def test_a_kernel_of_zeros_has_a_factor_of_zeros():
    factor = factors.pivoted_cholesky(make_gram("linear"), np.zeros((5, 2)))
    assert factor.rank == 1
    assert not factor.Phi.any()
    assert factor.tau == 0


def test_what_is_not_positive_is_refused():
    K = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    with pytest.raises(IndefiniteKernelError):
        factors.pivoted_cholesky(PrecomputedGram(), K)
    with pytest.raises(IndefiniteKernelError):
        factors.pivoted_cholesky(PrecomputedGram(), np.array([[0.0, 1.0], [1.0, 0.0]]))
    with pytest.raises(IndefiniteKernelError):
        factors.pivoted_cholesky(PrecomputedGram(), -np.eye(3))


def test_bad_tau_and_rank_are_refused():
    X, kernel = inputs(9), KERNELS["rbf"]
    with pytest.raises(ValueError, match=r"tau .* must not be negative, got -1"):
        factors.pivoted_cholesky(kernel, X, tau=-1.0)
    for rank in (0, 61):
        with pytest.raises(ValueError, match=f"between 1 and the number of rows, 60; got {rank}"):
            factors.pivoted_cholesky(kernel, X, rank=rank)


@each_kernel
def test_nystroem_on_landmarks_is_the_projection_on_their_span(kernel):
    X, Z = inputs(10), inputs(11, n=8)
    factor = factors.nystroem(kernel, X, Z)
    K_xz, K_zz = kernel.cross(X, Z), kernel.square(Z)
    assert close(factor.Phi @ factor.Phi.T, K_xz @ np.linalg.pinv(K_zz, rcond=1e-12) @ K_xz.T, 1e-7)
    E = kernel.square(X) - factor.Phi @ factor.Phi.T
    assert np.linalg.eigvalsh(E)[0] >= -1e-10 * len(X)
    rounding = len(X) * np.finfo(np.float64).eps * np.trace(kernel.square(X))
    assert factor.tau == pytest.approx(np.trace(E), rel=1e-9, abs=rounding)


def test_nystroem_drops_landmarks_that_say_nothing_new():
    X, kernel = inputs(12), KERNELS["rbf"]
    Z = np.concatenate([X[:6], X[:6], X[:3]])
    assert factors.nystroem(kernel, X, Z).rank == 6
    w = weights_of("with zeros", len(X))
    E = kernel.square(X) - (Phi := factors.nystroem(kernel, X, Z).Phi) @ Phi.T
    assert factors.nystroem(kernel, X, Z, weight=w).tau == pytest.approx(np.diag(E) @ w)


@each_kernel
@pytest.mark.parametrize("weights", ["none", "with zeros"])
def test_nystroem_samples_rows(kernel, weights):
    X = inputs(13)
    w = weights_of(weights, len(X))
    factor = factors.nystroem(kernel, X, 9, weight=w, random_state=3)
    again, other = (factors.nystroem(kernel, X, 9, weight=w, random_state=seed) for seed in (3, 4))
    assert np.array_equal(factor.pivots, again.pivots)
    assert not np.array_equal(factor.pivots, other.pivots)
    assert w is None or w[factor.pivots].all()
    given = factors.nystroem(kernel, X, X[factor.pivots], weight=w)
    assert close(factor.Phi @ factor.Phi.T, given.Phi @ given.Phi.T, 1e-9)
    assert factor.tau == pytest.approx(given.tau, rel=1e-9, abs=0.0)


@pytest.mark.parametrize("count", [0, 61])
def test_nystroem_refuses_counts_that_do_not_exist(count):
    with pytest.raises(ValueError, match=f"between 1 and the number of rows, 60; got {count}"):
        factors.nystroem(KERNELS["rbf"], inputs(0), count)


def test_nystroem_refuses_landmarks_with_other_columns():
    with pytest.raises(ValueError, match=r"landmarks have shape \(4, 3\) but the inputs have 2 columns"):
        factors.nystroem(KERNELS["rbf"], inputs(0), inputs(0, n=4, p=3))


# ---- the certificate ----


def problem_of(kernel, X, Y, weight, intercept):
    return decompose.Problem(kernel, Data.with_intercept(X, Y, weight, intercept))


@given(
    seed=st.integers(0, 10_000),
    n=st.integers(3, 40),
    share=st.floats(0.0, 1.0),
    log_g=st.floats(-12, 4),
    weights=st.sampled_from(["none", "precisions", "with zeros", "repeats"]),
    intercept=st.booleans(),
    m=st.integers(1, 3),
    kernel=st.sampled_from(["rbf", "laplacian", "matern"]),
)
def test_the_bounds_contain_the_dense_evidence(seed, n, share, log_g, weights, intercept, m, kernel):
    kernel = KERNELS[kernel]
    X, Y = smooth(seed, n=n, m=m)
    w = weights_of(weights, n, seed)
    if w is not None and (w > 0).sum() < 2:
        w = None
    problem = problem_of(kernel, X, Y, w, intercept)
    factor = factors.pivoted_cholesky(kernel, X, rank=max(1, round(share * n)), weight=w)
    solution = solve_fixed(
        Spectrum.from_factor(factor.Phi, problem.data.basis, w).rotate(Y), CRITERIA["evidence"], np.exp(log_g)
    )
    dense = evidence_at(Spectrum.from_gram(kernel.square(X), problem.data.basis, w).rotate(Y), solution)
    slack = 1e-7 * (1 + np.abs(dense))
    missed = certificate.missed_energy(solution, problem, factor)
    for lower, upper in (
        certificate.evidence_bounds(solution, factor.tau),
        certificate.evidence_bounds(solution, factor.tau, missed),
    ):
        assert (lower <= dense + slack).all()
        assert (dense <= upper + slack).all()


def evidence_at(rotated, solution):
    """The log evidence of another decomposition at a solution's variances."""
    from skspectral.criteria.evidence import neg_two_log_evidence

    values = -0.5 * neg_two_log_evidence(rotated, solution.noise_var, solution.signal_var)
    return np.diag(values)


@pytest.mark.parametrize("rank", [1, 3, 10, 40])
def test_the_bounds_contain_the_evidence_of_the_referee(rank):
    X, y = smooth(3, n=40)
    K = reference.rbf(X)
    model = SpectralKernelRidge(gamma=0.5, method="low_rank", rank=rank, fit_intercept=False).fit(X, y)
    exact = reference.log_evidence(K, y, model.noise_variance_, model.signal_variance_)
    lower, upper = model.evidence_bounds_
    assert lower <= exact + 1e-6
    assert exact <= upper + 1e-6
    assert lower - 1e-9 <= model.log_evidence_ <= upper + 1e-9
    assert model.rank_ == rank


def test_more_rank_narrows_the_bounds():
    X, y = smooth(4, n=120)
    ridge = SpectralKernelRidge(0.1, gamma=0.5, method="low_rank")
    widths = [np.diff(ridge.set_params(rank=r).fit(X, y).evidence_bounds_)[0] for r in (2, 10, 30, 60)]
    assert np.all(np.diff(widths) < 0)
    assert widths[-1] < 1e-3 * widths[0]


@pytest.mark.parametrize("criterion", ["gcv", "posterior", "loo"])
def test_the_bounds_belong_to_the_variances_of_the_model(criterion):
    X, y = smooth(5, n=150, p=1)
    model = SpectralKernelRidge(gamma=0.5, method="low_rank", criterion=criterion).fit(X, y)
    dense = evidence_at(
        Spectrum.from_gram(reference.rbf(X), np.ones((150, 1))).rotate(y[:, None]), model._fitted.solution
    )
    lower, upper = model.evidence_bounds_
    assert lower - 1e-6 <= dense[0] <= upper + 1e-6


# ---- the estimators ----


def both(X, y, length, *, weight=None, **settings):
    """Return the exact model, the low-rank one, and what they predict at new points."""
    new = np.random.default_rng(1).uniform(-3, 3, (50, X.shape[1]))
    models = [
        SpectralGPRegressor(RBF(length), optimizer=None, method=method, **settings).fit(X, y, weight)
        for method in ("exact", "low_rank")
    ]
    return models, [model.predict(new, return_std=True) for model in models]


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("weights", ["none", "precisions", "with zeros"])
@pytest.mark.parametrize("m", [None, 2])
def test_a_factor_at_rounding_gives_the_exact_answer(p, weights, m, monkeypatch):
    monkeypatch.setattr(decompose, "_FIRST_TAU_SHARE", 1e-13)
    X, y = smooth(6, n=300, p=p, m=m)
    (exact, low), (from_exact, from_low) = both(X, y, 2.0, weight=weights_of(weights, len(X)))
    assert low.rank_ < 200 or p == 3
    value = exact.log_marginal_likelihood_value_
    assert low.log_marginal_likelihood_value_ == pytest.approx(value, rel=1e-6)
    for mine, theirs in zip(from_low, from_exact, strict=True):
        assert close(mine, theirs, 1e-6)
    assert np.allclose(low.evidence_bounds_, value, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 3])
def test_three_thousand_rows_at_rounding_equal_the_exact_answer(p, monkeypatch):
    monkeypatch.setattr(decompose, "_FIRST_TAU_SHARE", 1e-12)
    X, y = smooth(7, n=3000, p=p)
    (exact, low), (from_exact, from_low) = both(X, y, 2.5)
    assert low.rank_ < 1000
    assert low.log_marginal_likelihood_value_ == pytest.approx(exact.log_marginal_likelihood_value_, rel=1e-6)
    for mine, theirs in zip(from_low, from_exact, strict=True):
        assert close(mine, theirs, 1e-6)


def test_the_default_certificate_is_kept():
    X, y = smooth(8, n=400)
    (exact, low), _ = both(X, y, 1.5)
    lower, upper = low.evidence_bounds_
    assert upper - lower <= certificate.CERTIFIED_WIDTH
    assert abs(low.log_marginal_likelihood_value_ - exact.log_marginal_likelihood_value_) < 1e-2
    assert low.rank_ < 150


def no_square(monkeypatch, largest):
    """Make every attempt at a matrix of more than `largest` rows fail."""

    def refuse(self, X):
        raise AssertionError("K(X, X) was formed")

    for kind in (gram.PairwiseGram, gram.KernelGram, gram.PrecomputedGram):
        monkeypatch.setattr(kind, "square", refuse)
    from_gram = Spectrum.from_gram.__func__

    def small_only(cls, K, *args, **kwargs):
        assert len(K) <= largest, "an n x n matrix was decomposed"
        return from_gram(cls, K, *args, **kwargs)

    monkeypatch.setattr(Spectrum, "from_gram", classmethod(small_only))


@pytest.mark.parametrize(
    "model",
    [
        SpectralKernelRidge(gamma=0.5, method="low_rank"),
        SpectralKernelRidge(gamma=0.5, method="low_rank", rank=20),
        SpectralKernelRidge(0.3, gamma=0.5, method="low_rank", rank=20),
        SpectralKernelRidge(kernel="polynomial", method="low_rank", criterion="gcv"),
        SpectralGPRegressor(RBF(1.5), optimizer=None, method="low_rank"),
        SpectralGPRegressor(RBF(1.5), method="low_rank"),
        SpectralGPRegressor(RBF([1.5, 1.5]) + WhiteKernel(), method="low_rank"),
    ],
    ids=repr,
)
def test_low_rank_never_forms_the_matrix(model, monkeypatch):
    no_square(monkeypatch, largest=decompose._PILOT)
    X, y = smooth(9, n=700)
    model.fit(X, y)
    assert model.score(X, y) > 0.8
    assert model.rank_ < 300


def test_the_peak_of_memory_is_a_few_factors():
    import tracemalloc

    X, y = smooth(10, n=6000, p=3)
    tracemalloc.start()
    SpectralKernelRidge(gamma=0.5, method="low_rank", rank=200).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 8 * 6000 * 200  # an n x n matrix alone would be 30 of these


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("rank", [None, 5])
def test_far_from_the_data_the_prior_returns(intercept, rank):
    X, y = smooth(11, n=200)
    model = SpectralGPRegressor(
        RBF(1.0), optimizer=None, method="low_rank", rank=rank, fit_intercept=intercept
    ).fit(X, y)
    far = np.full((1, 2), 1e3)
    _, std = model.predict(far, return_std=True, include_noise=False)
    exact = SpectralGPRegressor(
        ConstantKernel(model.signal_variance_, "fixed") * RBF(1.0)
        + WhiteKernel(model.noise_variance_, "fixed"),
        optimizer=None,
        fit_intercept=intercept,
        method="exact",
    ).fit(X, y)
    _, expected = exact.predict(far, return_std=True, include_noise=False)
    # a factor of rank 5 knows less of the covariances behind the uncertainty of the mean
    assert std[0] == pytest.approx(expected[0], rel=1e-3 if rank is None or not intercept else 0.3)
    assert std[0] >= np.sqrt(model.signal_variance_) * (1 - 1e-9)


def test_joint_covariances_agree_with_the_exact_ones(monkeypatch):
    monkeypatch.setattr(decompose, "_FIRST_TAU_SHARE", 1e-12)
    X, y = smooth(12, n=150, m=2)
    (exact, low), _ = both(X, y, 1.5)
    new = inputs(1, n=6)
    covariances = [model.predict(new, return_cov=True)[1] for model in (low, exact)]
    assert close(*covariances, 1e-6)


def test_auto_is_exact_for_small_n(monkeypatch):
    monkeypatch.setattr(decompose, "_certified_factor", None)
    X, y = smooth(13, n=300)
    model = SpectralKernelRidge(gamma=0.5).fit(X, y)
    assert model.evidence_bounds_ == (pytest.approx(model.log_evidence_),) * 2
    assert len(model.spectrum_.U) == 300
    assert model._fitted.decomposition.feature_map is None


@pytest.mark.parametrize("kernel", [RBF(1.0), RBF(2.0) + DotProduct()])
def test_auto_takes_a_factor_of_a_smooth_kernel(kernel, monkeypatch):
    no_square(monkeypatch, largest=decompose._PILOT)
    X, y = smooth(14, n=1200)
    for model in (SpectralKernelRidge(kernel=kernel), SpectralGPRegressor(kernel, optimizer=None)):
        model.fit(X, y)
        lower, upper = model.evidence_bounds_
        assert upper - lower <= certificate.CERTIFIED_WIDTH
        assert model.rank_ < 400


def test_auto_decomposes_the_matrix_of_a_rough_kernel():
    X, y = smooth(15, n=1000)
    model = SpectralKernelRidge(kernel="laplacian").fit(X, y)
    assert model._fitted.decomposition.feature_map is None
    assert model.rank_ > 900


def test_auto_decomposes_what_is_definite_only_outside_the_mean():
    X, y = smooth(16, n=1000, p=1)
    D = np.abs(X - X.T)
    auto, exact = (
        SpectralKernelRidge(kernel="precomputed", method=method).fit(-D, y) for method in ("auto", "exact")
    )
    assert auto.log_evidence_ == exact.log_evidence_


def test_auto_with_a_given_alpha_is_exact():
    X, y = smooth(17, n=1000)
    model = SpectralKernelRidge(0.5, gamma=0.5).fit(X, y)
    assert model._fitted.decomposition.feature_map is None


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("reason", ["memory", "time"])
def test_a_matrix_that_is_not_affordable_is_replaced_with_a_warning(learns, reason, monkeypatch):
    if reason == "memory":
        monkeypatch.setattr(plan, "_fits_in_memory", lambda *_: False)
    else:
        monkeypatch.setattr(plan, "LARGEST_AFFORDABLE", 199)
    monkeypatch.setattr(plan, "_AFFORDABLE_FLOPS", 5.0 * 200 * 12.2**2)
    X, y = smooth(18, n=200)
    model = SpectralGPRegressor(Matern(1.0, (0.01, 1e3), nu=1.5), optimizer="default" if learns else None)
    with pytest.warns(
        LowRankWarning, match=r"matrix of 200 rows .* rank 24 stands in.* apart. Set rank above 24"
    ):
        model.fit(X, y)
    assert model.rank_ == 24
    lower, upper = model.evidence_bounds_
    exact = SpectralGPRegressor(model.kernel_, optimizer=None, method="exact").fit(X, y)
    at_variances = exact.log_evidence_at(model.noise_variance_, model.signal_variance_)
    assert lower < at_variances < upper


@pytest.mark.parametrize("learns", [False, True])
def test_what_is_certified_takes_the_place_of_a_matrix_without_a_warning(learns, monkeypatch):
    monkeypatch.setattr(plan, "LARGEST_AFFORDABLE", 199)
    X, y = smooth(18, n=200)
    model = SpectralGPRegressor(RBF(2.0, (1.0, 5.0)), optimizer="default" if learns else None).fit(X, y)
    lower, upper = model.evidence_bounds_
    assert upper - lower <= 0.01
    assert model.rank_ < 150


def test_the_affordable_rank_shrinks_with_rows_and_memory(monkeypatch):
    ranks = [plan.Plan().factor_rank(n) for n in (15_000, 60_000, 1_000_000)]
    assert ranks[0] > ranks[1] > ranks[2] > 100
    monkeypatch.setattr(plan, "physical_memory", lambda: 2.0 * 8 * 4 * 1_000_000 * 50)
    assert plan.Plan().factor_rank(1_000_000) == 50


def test_where_rows_are_coupled_less_is_affordable():
    coupled = plan.Plan(couples_rows=True)
    assert coupled.route(5001) is plan.Route.AFFORDABLE
    assert coupled.route(5000) is plan.Plan().route(5001) is plan.Route.CERTIFIED_OR_EXACT
    assert coupled.factor_rank(20_000) == int((3e11 / (20 * 20_000)) ** (1 / 3))
    assert coupled.learning_rank(20_000) == coupled.factor_rank(20_000)


def test_what_does_not_fit_is_refused_before_it_is_made(monkeypatch):
    monkeypatch.setattr("skspectral.support.memory.physical_memory", lambda: 1e6)
    X, y = smooth(18, n=400)
    with pytest.raises(MemoryError, match=r"kernel matrix of 400 rows takes about .* GiB.*low_rank"):
        SpectralKernelRidge(method="exact").fit(X, y)
    with pytest.raises(MemoryError, match=r"factor of 400 rows and rank 300 takes about .* smaller rank"):
        SpectralKernelRidge(method="low_rank", rank=300).fit(X, y)


def test_memory_is_short_where_lapack_cannot_count():
    assert plan._fits_in_memory(1000, 3)
    assert not plan._fits_in_memory(50_000, 3)


@pytest.mark.slow
@pytest.mark.parametrize("m", [None, 2])
def test_learned_lengths_are_those_of_the_exact_route(m):
    X, y = smooth(19, n=400, p=2, m=m, noise=0.2)
    kernel = RBF([1.0, 1.0], (0.05, 50.0))
    exact, low = (SpectralGPRegressor(kernel, method=method).fit(X, y) for method in ("exact", "low_rank"))
    assert np.allclose(low.kernel_.length_scale, exact.kernel_.length_scale, rtol=2e-2)
    difference = low.log_marginal_likelihood_value_ - exact.log_marginal_likelihood_value_
    assert abs(difference) < 2e-2
    assert low.rank_ < 200


def test_precomputed_kernels_take_the_route_too():
    X, y = smooth(20, n=200)
    kernel, new = RBF(1.0) * DotProduct(1.0), inputs(3, n=5)  # no ties between pivots
    K, K_new = kernel(X), kernel(new, X)
    by_matrix = SpectralGPRegressor("precomputed", method="low_rank", rank=60).fit(K, y)
    by_kernel = SpectralGPRegressor(kernel, optimizer=None, method="low_rank", rank=60).fit(X, y)
    ours = by_matrix.predict(K_new, return_std=True, K_test_diag=kernel.diag(new))
    for mine, theirs in zip(ours, by_kernel.predict(new, return_std=True), strict=True):
        assert close(mine, theirs, 1e-6)
    for wrong, message in ((K[:, :150], "square"), (K + np.triu(K, 1), "not symmetric")):
        with pytest.raises(ValueError, match=message):
            SpectralKernelRidge(kernel="precomputed", method="low_rank", rank=10).fit(wrong, y)


def test_sparse_inputs_take_the_route_too():
    X, y = smooth(21, n=150, p=4)
    X[np.abs(X) < 1] = 0.0
    S = sparse.csr_matrix(X)
    model = SpectralKernelRidge(gamma=0.2, method="low_rank", rank=150)  # of smaller ones, ties decide
    assert close(clone(model).fit(S, y).predict(S), clone(model).fit(X, y).predict(X), 1e-8)
    exact = SpectralKernelRidge(gamma=0.2, method="exact").fit(X, y)
    lower, upper = model.set_params(rank=None).fit(S, y).evidence_bounds_
    assert lower <= exact.log_evidence_ + 1e-3
    assert upper >= exact.log_evidence_ - 1e-3
    assert upper - lower <= certificate.CERTIFIED_WIDTH


@pytest.mark.parametrize("rank", [None, 15])
def test_zero_weights_leave_rows_out(rank):
    X, y = smooth(22, n=120)
    w = weights_of("with zeros", len(X))
    kept = w > 0
    ridge = SpectralKernelRidge(gamma=0.5, method="low_rank", rank=rank)
    with_zeros = ridge.fit(X, y, w)
    predicted, evidence = with_zeros.predict(X), with_zeros.log_evidence_
    alone = ridge.fit(X[kept], y[kept], w[kept])
    tolerance = 1e-8 if rank else 1e-3  # the pilot of the certificate draws other rows
    assert close(predicted, alone.predict(X), tolerance)
    assert evidence == pytest.approx(alone.log_evidence_, abs=1e-2 if rank is None else 1e-6)


def test_integer_weights_are_repetitions():
    X, y = smooth(23, n=60)
    w = weights_of("repeats", len(X))
    times = w.astype(int)
    ridge = SpectralKernelRidge(0.3, kernel="laplacian", method="low_rank", rank=60)
    weighted = ridge.fit(X, y, w).predict(X)
    repeated = ridge.fit(np.repeat(X, times, axis=0), np.repeat(y, times)).predict(X)
    assert close(weighted, repeated, 1e-8)


def test_leave_one_out_of_a_low_rank_model_is_that_of_its_matrix():
    X, y = smooth(24, n=50)
    model = SpectralGPRegressor(RBF(1.0), optimizer=None, method="low_rank", rank=8, fit_intercept=False)
    mean, std = model.fit(X, y).loo_predict(return_std=True)
    Phi = model._fitted.decomposition.feature_map(make_gram(RBF(1.0)), X)
    expected = reference.leave_one_out(Phi @ Phi.T, y, model.noise_variance_, model.signal_variance_)
    missed = model.signal_variance_ * (1.0 - (Phi**2).sum(axis=1))
    assert close(mean, expected[0], 1e-7)
    assert close(std, np.sqrt(expected[1] + missed), 1e-7)
    assert (std >= model.predict(X, return_std=True)[1] - 1e-9).all()


@pytest.mark.parametrize("length", [1.0, 1e-3])
def test_inputs_that_span_many_length_scales_are_no_error(length):
    rng = np.random.default_rng(31)
    t = 1.6e9 + np.sort(rng.uniform(0, 1e7, 300))[:, None]
    y = np.sin(t[:, 0] / 5e5) + 0.1 * rng.normal(size=300)
    exact, low = (
        SpectralGPRegressor(RBF(length), optimizer=None, method=method).fit(t, y)
        for method in ("exact", "low_rank")
    )
    assert low.log_marginal_likelihood_value_ == pytest.approx(exact.log_marginal_likelihood_value_, abs=1e-2)


@pytest.mark.parametrize("scale", [1e-3, 1e-8])
def test_bounds_hold_for_kernels_that_are_almost_the_identity(scale):
    X, y = smooth(32, n=150)
    model = SpectralKernelRidge(kernel=RBF(scale), method="low_rank").fit(X, y)
    K = np.eye(150)
    dense = reference.reml(K, y, np.ones((150, 1)), model.noise_variance_, model.signal_variance_)
    lower, upper = model.evidence_bounds_
    assert lower - 1e-6 <= dense <= upper + 1e-6


@pytest.mark.parametrize("kernel", [WhiteKernel(0.1), RBF(1.0) + WhiteKernel(0.1)], ids=str)
def test_white_noise_inside_a_ridge_kernel_is_part_of_its_factor(kernel):
    X, y = smooth(34, n=60)
    exact, low = (
        SpectralKernelRidge(0.5, kernel=kernel, method=method).fit(X, y) for method in ("exact", "low_rank")
    )
    assert low.log_evidence_ == pytest.approx(exact.log_evidence_, abs=1e-2)
    assert low.loo_predict() == pytest.approx(exact.loo_predict(), abs=1e-2)


def test_a_rank_beyond_the_rows_is_refused_for_linear_kernels_too():
    X, y = smooth(33, n=30)
    with pytest.raises(ValueError, match="rank=31 is larger than the number of rows, 30"):
        SpectralKernelRidge(kernel="linear", rank=31).fit(X, y)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.ones((30, 2)), np.arange(30.0)),
        (np.ones((1, 2)), np.ones(1)),
        (inputs(0, n=2), np.array([1.0, 2.0])),
        (np.repeat(inputs(0, n=5), 6, axis=0), np.random.default_rng(0).normal(size=30)),
        (inputs(0, n=30), np.full(30, 7.0)),
        (inputs(0, n=30), 1e150 * np.arange(30.0)),
        (inputs(0, n=30), 1e-150 * np.arange(30.0)),
        (inputs(0, n=30), np.random.default_rng(1).normal(size=30)),
        (inputs(0, n=30), inputs(0, n=30)[:, 0]),
    ],
    ids=["same X", "one row", "two rows", "duplicates", "constant", "huge", "tiny", "noise", "noise-free"],
)
@pytest.mark.parametrize("kernel", [RBF(1.0), DotProduct(0.0, "fixed")])
@pytest.mark.filterwarnings("ignore::skspectral.UndeterminedVarianceWarning")
def test_extremes_are_answered(X, y, kernel):
    model = SpectralGPRegressor(kernel, optimizer=None, method="low_rank").fit(X, y)
    for values in (*model.predict(X, return_std=True), *model.evidence_bounds_):
        assert not np.isnan(values).any()


@pytest.mark.slow
def test_a_signal_that_the_pilot_misses_is_found():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (3000, 1))
    y = 0.1 * np.sin(3 * X[:, 0]) + rng.normal(size=3000)
    exact, low = (SpectralKernelRidge(method=method).fit(X, y) for method in ("exact", "low_rank"))
    assert low.alpha_ == pytest.approx(exact.alpha_, rel=1e-2)


def test_rank_beyond_the_rows_is_refused():
    X, y = smooth(25, n=30)
    for model in (SpectralKernelRidge(rank=31), SpectralKernelRidge(method="low_rank", rank=31)):
        with pytest.raises(ValueError, match="rank=31 is larger than the number of rows, 30"):
            model.fit(X, y)
    with pytest.raises(ValueError, match="rank"):
        SpectralKernelRidge(method="low_rank", rank=0).fit(X, y)
    with pytest.raises(ValueError, match="method"):
        SpectralKernelRidge(method="dense").fit(X, y)


def test_a_kernel_that_is_not_positive_is_refused():
    X, y = smooth(26, n=80)
    with pytest.raises(IndefiniteKernelError):
        SpectralKernelRidge(kernel="sigmoid", gamma=2.0, coef0=-1.0, method="low_rank", rank=60).fit(X, y)


def test_the_same_input_gives_the_same_output():
    X, y = smooth(27, n=600)
    first, second = (SpectralKernelRidge(gamma=0.5, method="low_rank").fit(X, y) for _ in range(2))
    assert np.array_equal(first.predict(X), second.predict(X))


def test_vectors_of_small_eigenvalues_are_orthogonal_to_the_mean():
    X = inputs(29, n=300, p=1)
    Phi = factors.pivoted_cholesky(make_gram(RBF(2.0)), X).Phi
    for rows in (slice(None), slice(0, Phi.shape[1])):  # more rows than columns, and not
        spectrum = Spectrum.from_factor(Phi[rows], np.ones((len(Phi[rows]), 1)))
        U = spectrum.dense_U
        assert np.abs(U.sum(axis=0)).max() < 1e-12
        assert close(U.T @ Phi[rows], spectrum.loadings, 1e-13)


@pytest.mark.parametrize("weights", ["none", "with zeros"])
def test_a_greedy_decomposition_has_bounds_too(weights):
    X, Y = smooth(30, n=200, m=2)
    w = weights_of(weights, 200)
    problem = problem_of(KERNELS["rbf"], X, Y, w, intercept=True)
    free = decompose.decompose(problem, plan.Plan("low_rank", selection="greedy"))
    capped = decompose.decompose(problem, plan.Plan("auto", 5, "greedy"))
    assert capped.rank == 5
    assert 5 < free.rank < 100
    for each in (free, capped):
        solution = solve(each.spectrum.rotate(Y), CRITERIA["evidence"])
        exact = Spectrum.from_gram(KERNELS["rbf"].square(X), np.ones((200, 1)), w).rotate(Y)
        lower, upper = each.bounds(solution)
        assert (lower <= evidence_at(exact, solution)).all()
        assert (evidence_at(exact, solution) <= upper).all()
    assert plan.Plan("auto", 5, "greedy").looks_at_targets(200)
    assert not plan.Plan("auto", 5).looks_at_targets(200)


def test_solve_on_a_factor_equals_solve_on_its_matrix():
    X, Y = smooth(28, n=50, m=2)
    Phi = factors.pivoted_cholesky(KERNELS["rbf"], X, rank=9).Phi
    basis = np.ones((50, 1))
    by_factor, by_matrix = (
        solve(spectrum.rotate(Y), CRITERIA["evidence"])
        for spectrum in (Spectrum.from_factor(Phi, basis), Spectrum.from_gram(Phi @ Phi.T, basis))
    )
    assert np.allclose(by_factor.noise_var, by_matrix.noise_var, rtol=1e-7)
    assert np.allclose(by_factor.log_evidence, by_matrix.log_evidence, rtol=1e-9)


# ---- where a factor must not be trusted ----


def hidden(K, i, j, by):
    """Return K with entries far from the pivots changed: symmetric if `by` has two equal numbers."""
    K = K.copy()
    K[i, j], K[j, i] = by
    return K


@pytest.fixture(scope="module")
def smooth_matrix():
    X, y = smooth(40, n=1100, p=1)
    return make_gram(RBF(2.0)).square(X), y


@pytest.mark.parametrize("method", ["auto", "low_rank", "exact"])
def test_an_asymmetric_matrix_is_refused_by_every_method(smooth_matrix, method):
    K, y = smooth_matrix
    with pytest.raises(ValueError, match="not symmetric"):
        SpectralKernelRidge(kernel="precomputed", method=method).fit(hidden(K, 700, 900, (0.5, 0.7)), y)


@pytest.mark.parametrize("method", ["auto", "low_rank", "exact"])
def test_an_indefinite_matrix_is_refused_by_every_method(smooth_matrix, method):
    K, y = smooth_matrix
    with pytest.raises(IndefiniteKernelError):
        SpectralKernelRidge(kernel="precomputed", method=method).fit(
            hidden(K, 700, 900, (K[700, 900] - 0.5,) * 2), y
        )


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["gcv", "posterior"])
@pytest.mark.filterwarnings("ignore::skspectral.DegenerateCriterionWarning")
def test_auto_approximates_for_the_evidence_only(criterion):
    X, Y = smooth(41, n=1100, p=1, m=2)
    assert SpectralKernelRidge(gamma=0.5).fit(X, Y)._fitted.decomposition.feature_map is not None
    exact = [
        SpectralKernelRidge(gamma=0.5, criterion=criterion),
        SpectralKernelRidge(gamma=0.5, alpha=0.1),
        SpectralKernelRidge(gamma=0.5, alpha_per_target=False),
        SpectralGPRegressor(RBF(1.0), optimizer=None, criterion=criterion),
        SpectralGPRegressor(RBF(1.0), optimizer=None, inference="integrate"),
        SpectralGPRegressor(RBF(1.0), inference="integrate"),
    ]
    for model in exact:
        assert model.fit(X, Y)._fitted.decomposition.feature_map is None, model


def test_a_factor_warns_of_an_alpha_that_it_was_not_made_for():
    X, y = smooth(42, n=1100, p=1)
    ridge = SpectralKernelRidge(gamma=0.5).fit(X, y)
    assert ridge.with_alpha(2 * ridge.alpha_).alpha_ == 2 * ridge.alpha_
    with pytest.warns(LowRankWarning, match=r"certified at alpha = .*, not at 1e-09"):
        ridge.with_alpha(1e-9)
    SpectralKernelRidge(gamma=0.5, method="exact").fit(X, y).with_alpha(1e-9)


def test_a_factor_stops_at_the_trace_it_needs():
    X = inputs(43, n=400, p=1)
    for tau in (10.0, 1e-3, 1e-9):
        factor = factors.pivoted_cholesky(make_gram(RBF(0.3)), X, tau=tau)
        shorter = factors.pivoted_cholesky(make_gram(RBF(0.3)), X, rank=max(1, factor.rank - 1))
        assert factor.tau <= tau < shorter.tau


def test_float32_is_trusted_to_its_rounding_and_no_less():
    X, y = smooth(44, n=300)
    K = make_gram(RBF(1.0)).square(X).astype(np.float32)
    single, double = (
        SpectralGPRegressor("precomputed", method="exact").fit(matrix, y) for matrix in (K, K.astype(float))
    )
    assert single.log_marginal_likelihood_value_ == pytest.approx(
        double.log_marginal_likelihood_value_, abs=1e-2
    )


def test_leave_one_out_spreads_do_not_count_white_noise_twice():
    X, y = smooth(45, n=80, p=1)
    kernel = (RBF(1.0, "fixed") + WhiteKernel(0.1, "fixed")) ** 2
    exact, low = (
        SpectralGPRegressor(kernel, method=method).fit(X, y).loo_predict(return_std=True)[1]
        for method in ("exact", "low_rank")
    )
    assert close(low, exact, 1e-2)


# ---- what the certificate is made of


def certified_parts(seed=0, n=60, rank=12):
    X, Y = smooth(seed, n=n, m=2)
    problem = problem_of(KERNELS["rbf"], X, Y, None, intercept=True)
    factor = factors.pivoted_cholesky(problem.gram, X, rank=rank)
    spectrum = Spectrum.from_factor(factor.Phi, problem.data.basis)
    return problem, factor, solve(spectrum.rotate(Y), CRITERIA["evidence"])


def test_the_missed_energy_is_that_of_the_dual_coefficients():
    problem, factor, solution = certified_parts()
    E = problem.gram.square(problem.data.X) - factor.Phi @ factor.Phi.T
    w = solution.dual / solution.rotated.scale
    expected = np.einsum("im,ij,jm->m", w, E, w)
    missed = certificate.missed_energy(solution, problem, factor)
    assert (missed >= expected * (1 - 1e-10)).all()
    assert missed == pytest.approx(expected, rel=1e-6)


def test_a_look_at_the_kernel_never_widens_the_bounds():
    _, factor, solution = certified_parts()
    by_trace = certificate.evidence_bounds(solution, factor.tau)
    useless = certificate.evidence_bounds(solution, factor.tau, missed=np.full(2, 1e9))
    assert np.array_equal(by_trace, useless)
    useful = certificate.evidence_bounds(solution, factor.tau, missed=np.zeros(2))
    assert (useful[1] < by_trace[1]).all()
    assert np.array_equal(useful[0], by_trace[0])


def test_a_trace_that_falls_too_slowly_is_given_up():
    X = np.random.default_rng(0).uniform(-3, 3, (1500, 6))
    columns = []

    class Counted(KernelGram):
        def columns(self, X, chosen):
            columns.append(len(chosen))
            return super().columns(X, chosen)

    hopeless = factors.pivoted_cholesky(Counted(RBF(1.0)), X, tau=1e-3, rank=600, unless_hopeless=True)
    assert hopeless.tau > 1e-3
    assert sum(columns) < 500
    smooth_one = factors.pivoted_cholesky(KernelGram(RBF(9.0)), X, tau=1e-3, rank=600, unless_hopeless=True)
    assert smooth_one.tau <= 1e-3


def test_what_is_left_of_a_trace_is_out_of_reach_by_its_last_fall():
    assert factors._is_hopeless(before=10.0, left=9.0, n_steps=100, tau=0.1, n_open=500)
    assert not factors._is_hopeless(before=10.0, left=1.0, n_steps=100, tau=0.1, n_open=500)
    assert not factors._is_hopeless(before=10.0, left=0.05, n_steps=100, tau=0.1, n_open=0)
    assert not factors._is_hopeless(before=10.0, left=9.0, n_steps=100, tau=0.0, n_open=0)


@pytest.mark.parametrize("nu", [0.5, 1.5])
def test_a_factor_of_all_rows_has_the_gradient_of_the_matrix(nu):
    X = np.random.default_rng(3).uniform(-2, 2, (40, 3))
    Y = np.sin(X @ np.random.default_rng(4).normal(size=(3, 2)))  # without noise: every digit counts
    model = SpectralGPRegressor(Matern(5.0, nu=nu), method="low_rank", optimizer=None).fit(X, Y)
    assert model.rank_ == len(X)
    assert {result.status for result in model.tuning_} == {"noise_free"}
    theta = model.kernel_.theta
    _, gradient = model.log_marginal_likelihood(theta, eval_gradient=True)
    ahead, behind = (model.log_marginal_likelihood(theta + h) for h in (1e-3, -1e-3))
    assert gradient[0] == pytest.approx((ahead - behind) / 2e-3, abs=1e-3)


@pytest.mark.parametrize("seed", [0, 7, 10])
def test_weights_of_all_sizes_make_no_kernel_indefinite(seed):
    X, y = smooth(seed, n=25, p=4)
    weight = 10.0 ** np.random.default_rng(seed).uniform(-12, 12, 25)
    low_rank, exact = (
        SpectralKernelRidge(1.0, kernel=RBF(0.1) + DotProduct(1.0), method=method).fit(X, y, weight)
        for method in ("low_rank", "exact")
    )
    # a factor is certified to give the log evidence to a hundredth, not all digits of predictions
    assert close(low_rank.predict(X), exact.predict(X), 1e-2)


def test_small_weights_hide_no_indefinite_kernel():
    X, y = smooth(3, n=60)
    model = SpectralKernelRidge(alpha=1e-12, kernel="sigmoid", gamma=2.0, method="low_rank")
    with pytest.raises(IndefiniteKernelError):
        model.fit(X, y, np.full(60, 1e-12))


@pytest.mark.parametrize("quotients", [[0.1, -0.5], [0.1, 1.5], [-0.5, 0.1]])
def test_one_probe_that_no_residual_can_have_is_enough(quotients):
    """Rayleigh quotients of a positive semi-definite matrix of trace 1 are between 0 and 1."""
    gram = SimpleNamespace(precision=lambda X: 1e-16, diagonal=lambda X: np.ones(len(X)))
    problem = SimpleNamespace(gram=gram, data=SimpleNamespace(X=np.zeros((3, 1))))
    _check_probes(np.array([0.0, 1.0]), 1.0, problem, np.ones(3))
    with pytest.raises(IndefiniteKernelError):
        _check_probes(np.array(quotients), 1.0, problem, np.ones(3))
