"""Targets with holes: independent outputs on their own rows, correlated ones from all observed entries."""

import pickle

import numpy as np
import pytest
from problems import close
from reference import rbf
from reference_outputs import Dense
from scipy.stats import norm
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics import r2_score

from skspectral import IndefiniteKernelError, SpectralGPRegressor, SpectralKernelRidge
from skspectral.criteria import CRITERIA
from skspectral.decomposition.data import Data
from skspectral.learning.patterns import by_patterns, objective_of
from skspectral.learning.task import Task
from skspectral.linalg.entries import Entries

N, M = 40, 5
PATTERNS = 3  # outputs 0 and 2 share their rows, 1 and 3 theirs, 4 was always observed


def problem(seed=0, n=N):
    """Return X, Y with holes in three patterns, and weights."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    Y = np.sin(X @ rng.normal(size=(2, M)) + np.arange(M)) + 0.3 * rng.normal(size=(n, M)) + 2.0
    Y[:10, [0, 2]] = np.nan
    Y[5:20, [1, 3]] = np.nan
    return X, Y, rng.uniform(0.5, 2.0, n)


def correlated_problem(seed=0, n=50, m=3, share=0.3):
    """Return X, K and correlated outputs, complete and with holes."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    signals = np.linalg.cholesky(rbf(X) + 1e-10 * np.eye(n)) @ rng.normal(size=(n, m))
    Y = signals @ rng.normal(size=(m, m)) + rng.normal(size=(n, m)) @ rng.normal(size=(m, m)) + np.arange(m)
    return X, rbf(X), Y, np.where(rng.uniform(size=Y.shape) < share, np.nan, Y), rng.uniform(0.5, 2.0, n)


def process(**params):
    return SpectralGPRegressor(RBF(1.0), **({"optimizer": None} | params))


def separate(make, X, Y, w):
    """Yield each output with the model of its own rows."""
    for j, y in enumerate(Y.T):
        seen = ~np.isnan(y)
        yield j, seen, make().fit(X[seen], y[seen], None if w is None else w[seen])


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"fit_intercept": False},
        {"criterion": "loo"},
        {"inference": "integrate"},
        {"method": "low_rank", "rank": 12},
    ],
    ids=str,
)
def test_each_output_of_a_process_is_that_of_its_own_rows(params, weighted):
    X, Y, w = problem()
    # without weights the first landmark of a factor is chosen among equals by the inputs of all rows
    w = w if weighted or "rank" in params else None
    gp = process(**params).fit(X, Y, w)
    assert gp.n_decompositions_ == PATTERNS
    X_new = np.random.default_rng(1).uniform(-2, 2, (7, 2))
    mean, std = gp.predict(X_new, return_std=True)
    cov = gp.predict(X_new, return_cov=True)[1]
    lower, upper = gp.predict_interval(X_new, 0.9)
    loo_mean, loo_std = gp.loo_predict(return_std=True)
    total = 0.0
    for j, seen, alone in separate(lambda: process(**params), X, Y, w):
        assert gp.noise_variance_[j] == pytest.approx(alone.noise_variance_, rel=1e-8)
        assert gp.signal_variance_[j] == pytest.approx(alone.signal_variance_, rel=1e-8)
        for found, expected in zip((mean, std), alone.predict(X_new, return_std=True), strict=True):
            assert close(found[:, j], expected)
        assert close(cov[..., j], alone.predict(X_new, return_cov=True)[1])
        for found, expected in zip((lower, upper), alone.predict_interval(X_new, 0.9), strict=True):
            assert close(found[:, j], expected)
        for found, expected in zip((loo_mean, loo_std), alone.loo_predict(return_std=True), strict=True):
            assert close(found[seen, j], expected)
        ordinary = alone.predict(X[~seen], return_std=True) if (~seen).any() else (np.zeros(0), np.zeros(0))
        for found, expected in zip((loo_mean, loo_std), ordinary, strict=True):
            assert close(found[~seen, j], expected)
        assert close(gp.alpha_[seen, j], alone.alpha_)
        assert not gp.alpha_[~seen, j].any()
        assert gp.tuning_[j].value == pytest.approx(alone.tuning_[0].value, rel=1e-8)
        total += alone.log_marginal_likelihood_value_
    assert gp.log_marginal_likelihood_value_ == pytest.approx(total, rel=1e-8)


@pytest.mark.parametrize("params", [{}, {"alpha": [0.1, 0.2, 0.3, 0.4, 0.5]}, {"criterion": "gcv"}], ids=str)
def test_each_output_of_a_ridge_is_that_of_its_own_rows(params):
    X, Y, w = problem()
    ridge = SpectralKernelRidge(**params).fit(X, Y, w)
    again = ridge.with_alpha(0.7)
    for j, seen, alone in separate(SpectralKernelRidge, X, Y, w):
        alone = SpectralKernelRidge(
            **params | ({"alpha": params["alpha"][j]} if "alpha" in params else {})
        ).fit(X[seen], Y[seen, j], w[seen])
        assert close(ridge.predict(X)[:, j], alone.predict(X))
        assert close(ridge.loo_predict()[seen, j], alone.loo_predict())
        assert close(ridge.dual_coef_variance()[seen, j], alone.dual_coef_variance())
        for name in ("alpha_", "log_evidence_", "effective_dof_", "criterion_value_", "intercept_"):
            assert getattr(ridge, name)[j] == pytest.approx(getattr(alone, name), rel=1e-8, abs=0.0)
        assert close(again.predict(X)[:, j], alone.with_alpha(0.7).predict(X))


def test_curves_and_uncertainties_are_those_of_each_outputs_rows():
    X, Y, w = problem()
    ridge = SpectralKernelRidge().fit(X, Y, w)
    curves, found = ridge.criterion_curve([0.1, 1.0]), ridge.variance_uncertainty()
    at = ridge.log_evidence_at([0.1, 0.2], 1.0)
    for j, _, alone in separate(SpectralKernelRidge, X, Y, w):
        assert close(curves[:, j], alone.criterion_curve([0.1, 1.0]))
        assert close(at[:, j], alone.log_evidence_at([0.1, 0.2], 1.0))
        expected = alone.variance_uncertainty()[0]
        assert found[j].noise_interval == pytest.approx(expected.noise_interval, rel=1e-6)


def test_an_output_is_exported_with_its_own_rows():
    X, Y, w = problem()
    gp = process(fit_intercept=False).fit(X, Y, w)
    for j, seen, _ in separate(process, X, Y, w):
        exported = gp.to_sklearn(j)
        assert len(exported.X_train_) == seen.sum()
        assert close(exported.predict(X), gp.predict(X)[:, j], 1e-6)


@pytest.mark.parametrize("optimizer", ["default", "fmin_l_bfgs_b"])
def test_a_kernel_is_learned_from_all_patterns(optimizer):
    X, Y, w = problem()
    gp = SpectralGPRegressor(RBF([0.7, 0.7]), optimizer=optimizer).fit(X, Y, w)
    theta, h = gp.kernel_.theta, 1e-5
    for point in (theta, theta + 0.3):
        value, gradient = gp.log_marginal_likelihood(point, eval_gradient=True)
        alone = [
            SpectralGPRegressor(gp.kernel_.clone_with_theta(point), optimizer=None)
            .fit(X[seen], Y[seen, j], w[seen])
            .log_marginal_likelihood_value_
            for j, seen in enumerate(~np.isnan(Y.T))
        ]
        assert value == pytest.approx(sum(alone), rel=1e-8)
        ends = [[gp.log_marginal_likelihood(point + sign * e) for sign in (1, -1)] for e in h * np.eye(2)]
        assert np.abs(gradient - [(up - down) / (2 * h) for up, down in ends]).max() < 1e-4
    _, gradient = gp.log_marginal_likelihood(theta, eval_gradient=True)
    assert np.abs(gradient).max() < 1e-2


@pytest.mark.slow
def test_learning_on_many_rows_goes_by_levels():
    X, Y, _ = problem(n=700)
    gp = SpectralGPRegressor(RBF(0.7)).fit(X, Y)
    _, gradient = gp.log_marginal_likelihood(gp.kernel_.theta, eval_gradient=True)
    assert np.abs(gradient).max() < 1e-2


def test_samples_and_filled_holes_are_those_of_the_predictions():
    X, Y, _ = problem()
    gp = process().fit(X, Y)
    draws = gp.sample_y(X[:2], 5000)
    mean, std = gp.predict(X[:2], return_std=True)
    assert np.abs(draws.mean(axis=2) - mean).max() < 0.05
    assert np.abs(draws.std(axis=2) - std).max() < 0.05
    filled, spread = gp.predict_missing(return_std=True)
    holes = np.isnan(Y)
    assert close(filled[~holes], Y[~holes], 0.0)
    assert not spread[~holes].any()
    mean, std = gp.predict(X, return_std=True)
    assert close(filled[holes], mean[holes])
    assert close(spread[holes], std[holes])
    assert close(gp.predict_missing(), filled)


@pytest.mark.parametrize("make", [SpectralKernelRidge, process])
def test_rows_without_any_output_are_left_out(make):
    X, Y, _ = problem()
    Y[3] = np.nan
    kept = np.arange(N) != 3
    assert close(make().fit(X, Y).predict(X), make().fit(X[kept], Y[kept]).predict(X))


@pytest.mark.parametrize("make", [SpectralKernelRidge, process, lambda: process(outputs="correlated")])
def test_outputs_that_were_never_observed_are_refused(make):
    X, Y, _ = problem()
    bad = Y.copy()
    bad[:, 1] = np.nan
    with pytest.raises(ValueError, match=r"no observation of output\(s\) \[1\]"):
        make().fit(X, bad)
    with pytest.raises(ValueError, match=r"output\(s\) \[1, 3\] in a row of positive weight"):
        make().fit(X, Y, np.where(np.isnan(Y[:, 1]), 1.0, 0.0))


@pytest.mark.parametrize("make", [SpectralKernelRidge, process])
def test_nan_in_a_single_target_and_infinity_anywhere_are_refused(make):
    X, Y, _ = problem()
    with pytest.raises(ValueError, match="NaN"):
        make().fit(X, Y[:, 0])
    Y[0, 4] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        make().fit(X, Y)


def test_one_alpha_for_outputs_on_different_rows_is_refused():
    X, Y, _ = problem()
    with pytest.raises(ValueError, match="alpha_per_target=True"):
        SpectralKernelRidge(alpha_per_target=False).fit(X, Y)


@pytest.mark.parametrize("make", [SpectralKernelRidge, process])
def test_scores_are_those_of_observed_entries(make):
    X, Y, w = problem()
    model = make().fit(X, Y)
    predicted, weights = model.predict(X), w
    expected = [
        r2_score(Y[seen, j], predicted[seen, j], sample_weight=weights[seen])
        for j, seen in enumerate(~np.isnan(Y.T))
    ]
    assert model.score(X, Y, w) == pytest.approx(np.mean(expected))
    complete = ~np.isnan(Y).any(axis=1)
    assert model.score(X[complete], Y[complete]) == pytest.approx(r2_score(Y[complete], predicted[complete]))


@pytest.mark.parametrize("outputs", ["independent", "correlated"])
def test_precomputed_kernels_and_pickles_have_holes_too(outputs):
    X, K, _, Y, w = correlated_problem(n=25, m=2)
    gp = process(outputs=outputs).fit(X, Y, w)
    given = SpectralGPRegressor("precomputed", outputs=outputs).fit(K, Y, w)
    again = pickle.loads(pickle.dumps(gp))
    X_new = X[:3] + 0.1
    K_new, ones = rbf(X_new, X), np.ones(3)
    mean, std = gp.predict(X_new, return_std=True)
    for found in (
        given.predict(K_new, return_std=True, K_test_diag=ones),
        again.predict(X_new, return_std=True),
    ):
        assert close(found[0], mean, 1e-6)
        assert close(found[1], std, 1e-6)
    assert close(given.predict_missing(), gp.predict_missing(), 1e-6)
    assert close(given.loo_predict(), gp.loo_predict(), 1e-6)


def test_new_rows_may_be_partly_observed_after_a_fit_with_holes():
    X, _, _, Y, _ = correlated_problem(n=40, m=2)
    gp = process(outputs="correlated").fit(X, Y)
    x_new, y_new = np.array([[0.3, -0.2]]), np.array([[0.7, np.nan]])
    mean, std = gp.predict(x_new, return_std=True, y_observed=y_new)
    before, covariance = gp.predict(x_new)[0], gp.predict_output_cov(x_new)[0]
    gain = covariance[1, 0] / covariance[0, 0]
    assert mean[0] == pytest.approx([0.7, before[1] + gain * (0.7 - before[0])])
    assert std[0] ** 2 == pytest.approx([0.0, covariance[1, 1] - gain * covariance[0, 1]])


# ------------------------------------------------------------------------------- correlated


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_correlated_holes_are_the_dense_system_of_observed_entries(fit_intercept):
    X, K, _, Y, w = correlated_problem()
    gp = process(outputs="correlated", fit_intercept=fit_intercept).fit(X, Y, w)
    F = np.ones((len(X), 1)) if fit_intercept else None
    dense = Dense(K, Y, gp.signal_covariance_, gp.noise_covariance_, F, w)
    assert gp.log_marginal_likelihood_value_ == pytest.approx(dense.log_evidence(), rel=1e-8)
    assert gp.covariance_tuning_.gradient_norm < 1e-4
    X_new = np.random.default_rng(1).uniform(-2, 2, (5, 2))
    expected = [dense.predict(k, 1.0, np.ones(1) if fit_intercept else None) for k in rbf(X_new, X)]
    mean, std = gp.predict(X_new, return_std=True, include_noise=False)
    covariance = np.stack([e[1] for e in expected])
    assert close(mean, np.stack([e[0] for e in expected]))
    assert close(gp.predict_output_cov(X_new, include_noise=False), covariance)
    assert close(std**2, np.einsum("njj->nj", covariance))
    joint = gp.predict(X_new, return_cov=True)[1]
    assert close(np.einsum("aaj->aj", joint), std**2 + np.diag(gp.noise_covariance_))


def test_traces_of_entries_are_those_of_dense_matrices():
    _, K, _, Y, _ = correlated_problem(n=12, m=2)
    seen, rng = ~np.isnan(Y), np.random.default_rng(3)
    entries = Entries.make(Y, np.ones(2), seen, np.ones(12), np.ones((12, 1)))
    Vg, Ve = (B @ B.T for B in rng.normal(size=(2, 2, 2)))
    system, back = entries.solve(K, Vg, Ve), rng.normal(size=(2, 2))
    assert system.is_dense
    kept, units = seen.T.ravel(), [np.outer(a, b) for a in back.T for b in back.T]

    def dense(U, A):
        return system.P @ np.kron(U, A)[np.ix_(kept, kept)]

    both = ((K, K), (K, np.eye(12)), (np.eye(12), np.eye(12)))
    for T, (A, B) in zip(system.traces(K, back), both, strict=True):
        expected = [[np.trace(dense(U, A) @ dense(V, B)) for V in units] for U in units]
        assert close(np.einsum("djkc->jkcd", T).reshape(4, 4), expected)


def test_a_step_counts_the_matrices_of_outputs_alone_and_those_of_all_entries():
    X, _, _, Y, _ = correlated_problem(n=20, m=2)
    task = by_patterns(Task(Data(X, Y), RBF(1.0), CRITERIA["evidence"], correlated=True))
    objective = objective_of(task, is_single=False)
    objective(np.zeros(1))
    tuned = task.solve(np.zeros(1))[1].result
    assert objective.n_calls == 2 + tuned.n_evaluations > 3


def test_covariances_that_another_kernel_leaves_singular_are_no_start(monkeypatch):
    """One of short lengths may need no noise where one of long lengths does: the outputs alone start then."""
    X, _, _, Y, _ = correlated_problem(n=30, m=2)
    task = by_patterns(Task(Data(X, Y), RBF(3.0), CRITERIA["evidence"], correlated=True))
    afresh = task.solve(np.log([3.0]))[1]
    near = task.solve(np.log([3.0]), afresh.basis)[1]
    assert near.result.n_evaluations < afresh.result.n_evaluations
    singular, solve = iter([None]), Entries.solve
    monkeypatch.setattr(Entries, "solve", lambda *args: next(singular, solve(*args)))
    found = task.solve(np.log([3.0]), afresh.basis)[1]
    assert found.log_evidence[0] == afresh.log_evidence[0]
    assert found.result.n_evaluations == afresh.result.n_evaluations


def test_entries_that_are_singular_from_the_start_are_refused(monkeypatch):
    X, _, _, Y, _ = correlated_problem(n=30, m=2)
    task = by_patterns(Task(Data(X, Y), RBF(3.0), CRITERIA["evidence"], correlated=True))
    monkeypatch.setattr(Entries, "solve", lambda *args: None)
    with pytest.raises(IndefiniteKernelError):
        task.solve(np.log([3.0]))
    assert np.isinf(objective_of(task, is_single=False)(np.log([3.0])).value)


def test_a_step_counts_one_matrix_for_each_pattern():
    X, Y, _ = problem()
    task = by_patterns(Task(Data(X, Y), RBF(1.0), CRITERIA["evidence"]))
    objective = objective_of(task, is_single=False)
    for n_steps in (1, 2):
        objective(np.zeros(1))
        assert objective.n_calls == n_steps * PATTERNS


def test_holes_that_are_most_of_the_table_are_answered():
    X, K, complete, _, w = correlated_problem(n=40, m=3)
    Y = np.where(np.arange(120).reshape(40, 3) % 4 == 0, complete, np.nan)
    gp = process(outputs="correlated").fit(X, Y, w)
    dense = Dense(K, Y, gp.signal_covariance_, gp.noise_covariance_, np.ones((40, 1)), w)
    assert gp.log_marginal_likelihood_value_ == pytest.approx(dense.log_evidence(), rel=1e-8)
    assert gp.covariance_tuning_.gradient_norm < 1e-3


def test_leaving_out_a_row_leaves_out_all_of_its_entries():
    X, K, _, Y, w = correlated_problem(n=15, m=2)
    gp = process(outputs="correlated").fit(X, Y, w)
    mean, std = gp.loo_predict(return_std=True)
    for i in range(15):
        o = np.arange(15) != i
        rest = Dense(
            K[np.ix_(o, o)], Y[o], gp.signal_covariance_, gp.noise_covariance_, np.ones((14, 1)), w[o]
        )
        mu, latent = rest.predict(K[i, o], 1.0, np.ones(1))
        seen = ~np.isnan(Y[i])
        assert np.abs(mean[i, seen] - mu[seen]).max(initial=0.0) < 1e-8
        variance = np.diag(latent + gp.noise_covariance_ / w[i])
        assert np.abs(std[i, seen] ** 2 - variance[seen]).max(initial=0.0) < 1e-8


def test_missing_entries_are_predicted_from_all_that_was_observed():
    X, K, _, Y, w = correlated_problem(n=15, m=2)
    gp = process(outputs="correlated").fit(X, Y, w)
    filled, spread = gp.predict_missing(return_std=True)
    F = np.ones((15, 1))
    full = np.where(np.isnan(Y), 0.0, Y)
    whole = Dense(K, full, gp.signal_covariance_, gp.noise_covariance_, F, w)
    seen = ~np.isnan(Y.T.ravel())
    C, FF, y = whole.C, whole.FF, Y.T.ravel()
    C_inv = np.linalg.inv(C[np.ix_(seen, seen)])
    G = FF[seen].T @ C_inv @ FF[seen]
    beta = np.linalg.solve(G, FF[seen].T @ C_inv @ y[seen])
    c = C[np.ix_(seen, ~seen)]
    gap = FF[~seen].T - FF[seen].T @ C_inv @ c
    mean = FF[~seen] @ beta + c.T @ C_inv @ (y[seen] - FF[seen] @ beta)
    variance = C[np.ix_(~seen, ~seen)] - c.T @ C_inv @ c + gap.T @ np.linalg.solve(G, gap)
    assert close(filled.T.ravel()[~seen], mean)
    assert close(spread.T.ravel()[~seen] ** 2, np.diag(variance))


def test_a_model_whose_holes_are_few_is_close_to_the_complete_one():
    X, _, complete, _, w = correlated_problem()
    Y = complete.copy()
    Y[0] = np.nan
    kept = np.arange(len(X)) > 0
    first = process(outputs="correlated").fit(X, Y, w)
    second = process(outputs="correlated").fit(X[kept], complete[kept], w[kept])
    assert first.log_marginal_likelihood_value_ == pytest.approx(
        second.log_marginal_likelihood_value_, rel=1e-8
    )
    assert close(first.signal_covariance_, second.signal_covariance_, 1e-6)
    assert close(first.predict(X), second.predict(X), 1e-6)
    found, expected = first.output_correlations(), second.output_correlations()
    assert close(found.noise, expected.noise, 1e-6)
    assert close(found.noise_se, expected.noise_se, 1e-6)


def test_the_gradient_by_kernel_parameters_is_that_of_the_entries_evidence():
    X, _, _, Y, w = correlated_problem(n=30, m=2)
    gp = process(outputs="correlated").fit(X, Y, w)
    theta, h = np.array([0.1]), 1e-4
    _, gradient = gp.log_marginal_likelihood(theta, eval_gradient=True)
    up, down = (gp.log_marginal_likelihood(theta + sign * h) for sign in (1, -1))
    assert gradient[0] == pytest.approx((up - down) / (2 * h), rel=1e-4)


def test_a_kernel_is_learned_from_correlated_entries():
    X, _, _, Y, _ = correlated_problem(n=40, m=2)
    gp = SpectralGPRegressor(RBF(0.6), outputs="correlated").fit(X, Y)
    best = gp.log_marginal_likelihood_value_
    assert all(gp.log_marginal_likelihood(gp.kernel_.theta + step) < best + 1e-6 for step in (-0.1, 0.1))


def test_an_observed_output_improves_a_missing_one():
    rng = np.random.default_rng(0)
    n = 150
    X = np.sort(rng.uniform(0, 10, (n, 1)), axis=0)
    f = np.sin(X[:, 0])
    noise = rng.multivariate_normal(np.zeros(3), 0.09 * (0.1 * np.eye(3) + 0.9), n)
    truth = np.column_stack([f, -f, 0.8 * f + 0.3 * np.cos(2 * X[:, 0])]) + noise
    Y = truth.copy()
    holes = rng.permutation(n)[: n // 2]
    Y[holes, 2] = np.nan
    alone, together = (process(outputs=o).fit(X, Y) for o in ("independent", "correlated"))
    errors = [gp.predict_missing()[holes, 2] - truth[holes, 2] for gp in (alone, together)]
    rmse = [np.sqrt(np.mean(e**2)) for e in errors]
    assert rmse[1] < 0.8 * rmse[0]
    _, std = together.predict_missing(return_std=True)
    inside = np.abs(errors[1]) < norm.ppf(0.975) * std[holes, 2]
    assert inside.mean() > 0.85


@pytest.mark.filterwarnings("ignore::skspectral.UndeterminedVarianceWarning")
def test_constant_outputs_beside_correlated_holes_are_answered():
    X, _, _, Y, _ = correlated_problem(n=20, m=2)
    Y = np.column_stack([Y, np.full(20, 3.0)])
    Y[0, 2] = np.nan
    gp = process(outputs="correlated").fit(X, Y)
    mean, std = gp.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert np.abs(mean[:, 2] - 3.0).max() < 1e-8
    assert np.isfinite(gp.sample_y(X[:3], 2)).all()
    assert np.isfinite(gp.loo_predict()).all()


def test_what_the_dense_system_cannot_do_is_refused(monkeypatch):
    X, _, _, Y, _ = correlated_problem(n=20, m=2)
    with pytest.raises(ValueError, match="method='auto' or 'exact'"):
        process(outputs="correlated", method="low_rank").fit(X, Y)
    monkeypatch.setattr("skspectral.models.fitted_entries._MOST_ENTRIES", 10)
    with pytest.raises(ValueError, match="at most 10 are feasible"):
        process(outputs="correlated").fit(X, Y)


def test_the_units_of_correlated_outputs_with_holes_do_not_matter():
    X, _, _, Y, _ = correlated_problem(n=30, m=2)
    units = np.array([1.0, 1e4])
    first, second = (process(outputs="correlated").fit(X, Y * unit) for unit in (1.0, units))
    assert close(second.predict(X) / units, first.predict(X), 1e-5)
    assert close(second.signal_covariance_ / np.outer(units, units), first.signal_covariance_, 1e-4)
    assert close(second.noise_covariance_ / np.outer(units, units), first.noise_covariance_, 1e-4)
