"""Laplace's approximation and the bounds against dense definitions, for every likelihood and form of K."""

from types import SimpleNamespace

import numpy as np
import pytest
from laplace_reference import DenseLaplace
from problems import close
from scipy.special import log_expit, softmax
from sklearn.gaussian_process.kernels import RBF, Matern

from skspectral.decomposition.data import Data
from skspectral.decomposition.plan import Plan
from skspectral.inference import approximate as approximate_module
from skspectral.inference import modes
from skspectral.inference.approximate import bound, evidence_bracket, laplace, variational
from skspectral.inference.modes import find_mode
from skspectral.inference.observations import ClassObservations, TiltedObservations, observe
from skspectral.learning.latent_objective import approximate_evidence
from skspectral.learning.latent_task import LatentTask
from skspectral.likelihoods import Bernoulli, Categorical, Gaussian, Huber, Laplace, Poisson, StudentT
from skspectral.linalg.curved import DensePrior, FactorPrior, lower_cholesky
from skspectral.support.exceptions import IndefiniteKernelError

N = 25
LIKELIHOODS = {
    "gaussian": Gaussian(noise_var=0.09),
    "logistic": Bernoulli(),
    "probit": Bernoulli(link="probit"),
    "poisson": Poisson(),
    "student_t": StudentT(scale=0.3, dof=4.0, dof_bounds=(0.5, 100.0)),
    "laplace": Laplace(scale=0.4, smoothing=1.0),
    "huber": Huber(scale=0.3, corner=0.5),
    "softmax": Categorical(),
}
each = pytest.mark.parametrize("name", LIKELIHOODS)
constants = pytest.mark.parametrize("has_constant", [True, False])
forms = pytest.mark.parametrize("form", ["dense", "factor"])


def problem(name, seed=0, n=N):
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(0, 6, (n, 1)), axis=0)
    f = 2.0 * np.sin(X[:, 0]) + 0.5
    y = {
        "logistic": (f + rng.normal(size=n) > 0.5).astype(float),
        "probit": (f + rng.normal(size=n) > 0.5).astype(float),
        "poisson": rng.poisson(np.exp(f)).astype(float),
        "softmax": np.digitize(f + 0.5 * rng.normal(size=n), [-0.5, 1.0]),
    }.get(name, f + 0.3 * rng.standard_t(2, size=n))
    return SimpleNamespace(
        X=X, y=y, weight=rng.uniform(0.5, 2.0, n), n_classes=3 if name == "softmax" else None
    )


def kernel_matrix(X, length=1.0):
    return Matern(length, nu=1.5)(X) + 1e-3 * np.eye(len(X))


def prior(K, form, scale=2.0):
    if form == "dense":
        return DensePrior(K.copy(), scale)
    L = np.linalg.cholesky(K)
    return FactorPrior(L, scale, L)


def fitted(name, form, has_constant, approximate=laplace, **kwargs):
    p = problem(name)
    observations = observe(LIKELIHOODS[name], p.y, p.weight)
    return p, approximate(prior(kernel_matrix(p.X), form), observations, has_constant=has_constant, **kwargs)


def referee(name, p, has_constant, start=None):
    K = 2.0 * kernel_matrix(p.X)
    return DenseLaplace(K, LIKELIHOODS[name], p.y, p.weight, has_constant, p.n_classes, start)


@each
@constants
@forms
def test_mode_evidence_and_predictions_are_those_of_the_definition(name, has_constant, form):
    p, fit = fitted(name, form, has_constant)
    start = None
    if name == "student_t":  # which has several modes: the definition starts near the one that was found
        start = np.append(fit.mode.KA[:, 0], fit.mode.constants[: int(has_constant)])
    dense = referee(name, p, has_constant, start)
    assert fit.mode.is_found
    assert close(fit.mode.F, dense.F, 1e-8)
    assert fit.log_evidence == pytest.approx(dense.log_evidence, rel=1e-10, abs=1e-8)
    new = np.array([[-1.0], [2.0], [7.5]])
    cross = Matern(1.0, nu=1.5)(new, p.X)
    features = (
        cross if form == "dense" else np.linalg.solve(np.linalg.cholesky(kernel_matrix(p.X)), cross.T).T
    )
    mean, var = dense.predict(2.0 * cross, np.full(3, 2.0))
    assert close(fit.mean(features), mean, 1e-7)
    if var is not None:
        assert close(fit.variance(features, np.ones(3)), var, 1e-7)
        assert close(np.diag(fit.covariance(features, np.eye(3))), var, 1e-7)


@each
@constants
def test_covariances_at_the_rows_are_those_of_the_definition(name, has_constant):
    p, fit = fitted(name, "dense", has_constant)
    _, factor = fitted(name, "factor", has_constant)
    K = 2.0 * kernel_matrix(p.X)
    if name == "softmax":
        classes = np.eye(3) - 1.0 / 3.0  # what is common to all classes is left out by the factor
        assert close(classes @ fit.covariances @ classes, classes @ factor.covariances @ classes, 1e-7)
        return
    dense = referee(name, p, has_constant, None if name != "student_t" else _at(fit, has_constant))
    _, var = dense.predict(K, np.diag(K))
    assert close(fit.covariances, var, 1e-7)
    assert close(factor.covariances, var, 1e-7)


def _at(fit, has_constant):
    return np.append(fit.mode.KA[:, 0], fit.mode.constants[: int(has_constant)])


@each
@constants
@forms
@pytest.mark.parametrize("integrated", [True, False])
def test_gradients_are_differences(name, has_constant, form, integrated):
    p = problem(name, n=40)
    data = Data.with_intercept(p.X, p.y[:, None], p.weight, has_constant)
    plan = Plan("exact") if form == "dense" else Plan("low_rank", rank=40)
    task = LatentTask(
        data, RBF(0.7), LIKELIHOODS[name], plan=plan, n_classes=p.n_classes, integrated=integrated
    )
    theta = task.start + 0.1
    value, gradient = approximate_evidence(task, theta, True)
    assert value == pytest.approx(approximate_evidence(task, theta, False))
    h = 1e-5
    differences = [
        (approximate_evidence(task, theta + e, False) - approximate_evidence(task, theta - e, False))
        / (2 * h)
        for e in h * np.eye(len(theta))
    ]
    assert close(gradient, differences, 1e-6)


@constants
@forms
@pytest.mark.parametrize("approximate", [bound, variational])
def test_gradients_of_the_bounds_are_differences(has_constant, form, approximate):
    p = problem("logistic", n=40)
    data = Data.with_intercept(p.X, p.y[:, None], p.weight, has_constant)
    plan = Plan("exact") if form == "dense" else Plan("low_rank", rank=40)
    task = LatentTask(data, RBF(0.7), Bernoulli(), approximate, plan=plan)
    _, gradient = approximate_evidence(task, task.start, True)
    h = 1e-4
    differences = [
        (
            approximate_evidence(task, task.start + e, False)
            - approximate_evidence(task, task.start - e, False)
        )
        / (2 * h)
        for e in h * np.eye(2)
    ]
    assert close(gradient, differences, 1e-5)


@forms
def test_the_gradient_of_the_bound_of_several_classes_is_its_difference(form):
    p = problem("softmax", n=40)
    data = Data.with_intercept(p.X, p.y[:, None], p.weight, True)
    plan = Plan("exact") if form == "dense" else Plan("low_rank", rank=40)
    task = LatentTask(data, RBF(0.7), Categorical(), bound, plan=plan, n_classes=3)
    _, gradient = approximate_evidence(task, task.start, True)
    h = 1e-5
    differences = [
        (
            approximate_evidence(task, task.start + e, False)
            - approximate_evidence(task, task.start - e, False)
        )
        / (2 * h)
        for e in h * np.eye(2)
    ]
    assert close(gradient, differences, 1e-6)


@constants
@forms
def test_the_bound_of_two_classes_is_that_of_normal_targets_with_variances_4(has_constant, form):
    """Its posterior is that of a regression with noise of variances 4/w; the exponent is that of the mode."""
    p, fit = fitted("logistic", form, has_constant, bound)
    K, W = 2.0 * kernel_matrix(p.X), 0.25 * p.weight
    R = np.linalg.inv(K + np.diag(1.0 / W))
    V = K - K @ R @ K
    log_dets = np.linalg.slogdet(np.eye(N) + K * W)[1]
    if has_constant:
        u = 1.0 - K @ R.sum(axis=1)
        V, log_dets = V + np.outer(u, u) / R.sum(), log_dets + np.log(R.sum())
    assert fit.log_evidence == pytest.approx(fit.mode.psi - 0.5 * log_dets, rel=1e-10)
    assert close(fit.covariances, np.diag(V), 1e-9)
    near = laplace(prior(kernel_matrix(p.X), form), fit.observations, has_constant=has_constant)
    assert close(approximate_module.WithLargestCurvature(near).variance(*at_rows(p, form)), np.diag(V), 1e-9)


def at_rows(p, form):
    """Kernel values of the rows, or their features, and prior variances."""
    K = kernel_matrix(p.X)
    return K if form == "dense" else np.linalg.cholesky(K), np.diag(K)


def sampled_log_evidence(K, y, n_samples=400_000):
    """Log evidence of a logistic model by sampling from the prior, with its standard error."""
    rng = np.random.default_rng(0)
    f = rng.normal(size=(n_samples, len(y))) @ np.linalg.cholesky(K).T
    log_p = log_expit(np.where(y == 1, f, -f)).sum(axis=1)
    p = np.exp(log_p - log_p.max())
    return log_p.max() + np.log(p.mean()), p.std() / p.mean() / np.sqrt(n_samples)


@pytest.mark.parametrize("scale", [3.0, 50.0])
def test_bounds_bracket_the_evidence(scale):
    p = problem("logistic", n=8)
    K = kernel_matrix(p.X)
    observations = observe(Bernoulli(), p.y)
    value, error = sampled_log_evidence(scale * K, p.y)
    fixed, own, near = (
        f(prior(K, "dense", scale), observations, has_constant=False).log_evidence
        for f in (bound, variational, laplace)
    )
    lower, upper = evidence_bracket(laplace(prior(K, "dense", scale), observations, has_constant=False))
    assert fixed < own < value + 3 * error
    assert value < upper
    assert lower == pytest.approx(own, abs=0.01)
    assert lower <= own + 1e-12
    assert abs(near - value) < 0.6


def test_the_bracket_of_several_classes_holds_their_laplace_evidence():
    p = problem("softmax")
    fit = laplace(prior(kernel_matrix(p.X), "dense"), observe(Categorical(), p.y), integrated=False)
    lower, upper = evidence_bracket(fit)
    assert lower < fit.log_evidence < upper
    assert upper == pytest.approx(fit.mode.psi)


def test_two_classes_of_the_softmax_are_the_logistic_curve_with_twice_the_variance():
    p = problem("logistic")
    K = kernel_matrix(p.X)
    binary = laplace(DensePrior(K.copy(), 2.0), observe(Bernoulli(), p.y), has_constant=False)
    joint = laplace(DensePrior(K.copy(), 1.0), observe(Categorical(), p.y.astype(int)), has_constant=False)
    assert joint.log_evidence == pytest.approx(binary.log_evidence, rel=1e-10)
    assert close(joint.mode.F[:, 1] - joint.mode.F[:, 0], binary.mode.F[:, 0], 1e-8)
    own = bound(DensePrior(K.copy(), 2.0), observe(Bernoulli(), p.y), has_constant=False)
    both = bound(DensePrior(K.copy(), 1.0), observe(Categorical(), p.y.astype(int)), has_constant=False)
    assert both.log_evidence == pytest.approx(own.log_evidence, rel=1e-10)


def test_points_of_contact_are_found_before_the_limit_of_re_estimations(monkeypatch):
    found = []
    monkeypatch.setattr(
        approximate_module, "find_mode", lambda *a, **k: found.append(1) or find_mode(*a, **k)
    )
    p = problem("logistic", n=20)
    K, observations = prior(kernel_matrix(p.X), "dense"), observe(Bernoulli(), p.y)
    start = bound(K, observations)
    found.clear()
    best = variational(K, observations, start=start, max_iter=400)
    n_made = len(found)
    assert n_made < 200
    assert variational(K, observations, start=start, max_iter=800).log_evidence == best.log_evidence
    assert variational(K, observations, start=start, max_iter=n_made // 2).log_evidence < best.log_evidence


def test_points_of_contact_have_constants_that_are_integrated_unless_told():
    p = problem("logistic", n=20)
    K, observations = prior(kernel_matrix(p.X), "dense"), observe(Bernoulli(), p.y)

    def value(**settings):
        return variational(K, observations, **settings).log_evidence

    assert value() == value(has_constant=True, integrated=True) != value(integrated=False)
    without = value(has_constant=False)
    assert without == value(has_constant=False, integrated=False)
    assert without not in (value(), value(integrated=False))


def test_a_start_nearby_saves_factorisations():
    p = problem("logistic", n=60)
    observations = observe(Bernoulli(), p.y)
    cold = find_mode(prior(kernel_matrix(p.X), "dense"), observations)
    near = prior(kernel_matrix(p.X, 1.02), "dense")
    warm = find_mode(near, observations, start=cold)
    assert warm.n_factorisations < find_mode(near, observations).n_factorisations
    assert close(warm.F, find_mode(near, observations).F, 1e-8)


@pytest.mark.parametrize("name", ["logistic", "poisson", "softmax"])
@constants
@forms
def test_steps_with_the_curvature_of_a_similar_problem_need_no_factorisation(name, has_constant, form):
    p = problem(name)
    observations = observe(LIKELIHOODS[name], p.y, p.weight)
    similar = laplace(prior(kernel_matrix(p.X), form), observations, has_constant=has_constant)
    K = prior(kernel_matrix(p.X, 1.005), form, 2.01)
    cold = find_mode(K, observations, has_constant=has_constant)
    settings = {"has_constant": has_constant, "start": similar.mode}
    mode = find_mode(K, observations, near=similar, **settings)
    assert mode.is_found
    assert close(mode.F, cold.F, 1e-8)
    assert mode.n_factorisations == 0 < find_mode(K, observations, **settings).n_factorisations


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_steps_with_the_curvature_of_another_problem_do_no_harm(scale):
    p = problem("logistic")
    observations = observe(Bernoulli(), p.y)
    other = laplace(prior(kernel_matrix(p.X), "dense", scale), observations)
    K = prior(kernel_matrix(p.X), "dense")
    assert close(laplace(K, observations, start=other).mode.F, find_mode(K, observations).F, 1e-8)


@pytest.mark.parametrize("reduction", [0.01, 0.03, 0.3])
def test_steps_that_bring_the_mode_slowly_nearer_are_not_taken_for_rounding(reduction, monkeypatch):
    monkeypatch.setattr(modes, "_GOOD_REDUCTION", reduction)
    for seed in range(8):
        p = problem("poisson", seed)
        K, observations = kernel_matrix(p.X), observe(Poisson(), p.y, p.weight)
        start = find_mode(prior(K, "dense", 1.9), observations)
        mode = find_mode(prior(K, "dense"), observations, start=start)
        dense = DenseLaplace(2.0 * K, Poisson(), p.y, p.weight, has_constant=True)
        assert close(mode.F, dense.F, 1e-8)
        assert close(find_mode(prior(K, "dense"), observations).F, dense.F, 1e-8)


def test_factorisations_are_counted(monkeypatch):
    made = []

    class Counted(modes._Newton):
        def __init__(self, problem, curved, is_exact=True):
            made.append(curved)
            super().__init__(problem, curved, is_exact)

    monkeypatch.setattr(modes, "_Newton", Counted)
    p = problem("logistic")
    mode = find_mode(prior(kernel_matrix(p.X), "dense"), observe(Bernoulli(), p.y))
    assert mode.n_factorisations == len(made) > 0


def test_what_has_no_cholesky_factor_says_so():
    with pytest.raises(
        IndefiniteKernelError, match="eigenvalue is nan, below the rounding tolerance -0"
    ) as e:
        lower_cholesky(-np.eye(2))
    assert e.value.tolerance == 0


def test_weights_are_powers_of_the_likelihood():
    p = problem("poisson")
    weight = np.where(np.arange(N) % 5 == 0, 2.0, 1.0)
    rows = np.sort(np.concatenate([np.arange(N), np.flatnonzero(weight == 2.0)]))
    kernel = RBF(1.0)
    one = laplace(DensePrior(kernel(p.X)), observe(Poisson(), p.y, weight))
    two = laplace(DensePrior(kernel(p.X[rows])), observe(Poisson(), p.y[rows]))
    assert one.log_evidence == pytest.approx(two.log_evidence, rel=1e-8)
    assert close(one.mode.F[rows], two.mode.F, 1e-6)


@pytest.mark.parametrize("name", [name for name in LIKELIHOODS if name != "softmax"])
def test_observations_are_weighted_and_shifted_likelihoods(name):
    """Beside a prior of variances 1 without correlation log|I + K W| tells the curvatures."""
    p, likelihood = problem(name), LIKELIHOODS[name]
    F, offset, w = np.linspace(-1.0, 2.0, N)[:, None], np.array([0.3]), p.weight
    observations = observe(likelihood, p.y, w).given(offset)
    at = likelihood.derivatives(p.y, F[:, 0] + 0.3)
    identity = DensePrior(np.eye(N))
    assert close(observations.first(F)[:, 0], w * at.first, 1e-14)
    assert close(observations.curvature_times(F, 2.0 * F), (2.0 * w * at.curvature)[:, None] * F, 1e-14)
    assert close(observations.third_contracted(F, w)[:, 0], w * at.third * w, 1e-14)
    expected = w @ likelihood.log_density(p.y, F[:, 0] + 0.3)
    assert observations.log_density(F) == pytest.approx(expected)
    positive = likelihood.step_curvature(p.y, F[:, 0] + 0.3)
    assert observations.step_curved(identity, F).log_det == pytest.approx(np.log1p(w * positive).sum())
    assert observations.largest_step_curvature(F) == pytest.approx((w * positive).max())
    if likelihood.is_log_concave:
        assert observations.curved(identity, F).log_det == pytest.approx(np.log1p(w * at.curvature).sum())
    assert observations.starting_constants() == pytest.approx([float(likelihood.starting_latent(p.y))])
    t = np.cos(F)
    tilted = TiltedObservations(observations, t)
    assert tilted.log_density(F) == pytest.approx(expected + np.vdot(t, F))
    assert close(tilted.first(F), observations.first(F) + t, 1e-14)
    assert tilted.step_curved(identity, F).log_det == observations.step_curved(identity, F).log_det


def test_derivatives_are_made_once_for_the_same_latent_values():
    looks = []

    class Watched(Gaussian):
        def derivatives(self, y, f):
            looks.append(f)
            return super().derivatives(y, f)

    observations, F = observe(Watched(noise_var=0.09), np.arange(3.0)), np.zeros((3, 1))
    for _ in range(2):
        observations.first(F)
        observations.curvature_times(F, F)
    assert len(looks) == 1
    observations.first(F + 1.0)
    assert len(looks) == 2


def test_curvature_that_no_mode_has_is_refused():
    K = kernel_matrix(problem("logistic").X)
    with pytest.raises(IndefiniteKernelError):
        DensePrior(K).curved(np.full(N, -1.0))


def test_rows_without_curvature_keep_their_prior_variance():
    K = kernel_matrix(problem("logistic").X)
    W = np.where(np.arange(N) < 5, 0.0, 1.0)
    V = np.linalg.inv(np.linalg.inv(K) + np.diag(W))
    assert close(DensePrior(K.copy()).curved(W).variances(), np.diag(V), 1e-7)
    W[7] = -0.1
    V = np.linalg.inv(np.linalg.inv(K) + np.diag(W))
    curved = DensePrior(K.copy()).curved(W)
    assert close(curved.variances(), np.diag(V), 1e-7)
    assert close(curved.times(np.eye(N)), np.diag(W) - W[:, None] * V * W, 1e-7)
    assert curved.log_det == pytest.approx(np.linalg.slogdet(np.eye(N) + K * W)[1])


def test_student_t_finds_the_higher_of_two_modes():
    """An observation far from all others pulls the latent function, or it does not."""
    y = np.array([0.0, 0.05, -0.05, 0.0, 6.0, 0.05, -0.05, 0.0])
    K = RBF(1.0)(np.linspace(0, 1, 8)[:, None]) + 1e-6 * np.eye(8)
    observations = observe(StudentT(scale=0.1, dof=3.0), y)
    mode = find_mode(DensePrior(K.copy()), observations, has_constant=False)
    at_outlier = find_mode(DensePrior(K.copy()), observations, has_constant=False, start=_pulled(mode))
    assert mode.psi >= at_outlier.psi - 1e-9
    assert abs(mode.F[4, 0]) < 0.2


def _pulled(mode):
    A = np.zeros_like(mode.A)
    A[4] = 6.0
    return SimpleNamespace(A=A, constants=np.zeros(1))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_no_row_is_more_curved_than_half_of_its_weight(n_classes):
    """A factor must be as exact as the most curved row asks for: one in doubt between two classes."""
    y, weight = np.arange(6) % n_classes, np.linspace(0.5, 3.0, 6)
    observations = ClassObservations(Categorical(), y, weight, n_classes)
    doubt = np.full((6, n_classes), -40.0)
    doubt[:, :2] = 0.0
    P = softmax(doubt, axis=1)
    curvatures = [
        w * np.linalg.eigvalsh(np.diag(p) - np.outer(p, p)).max() for w, p in zip(weight, P, strict=True)
    ]
    assert observations.largest_step_curvature(doubt) == pytest.approx(max(curvatures))
