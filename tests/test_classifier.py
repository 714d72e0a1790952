"""The classifier: beside scikit-learn's, its probabilities, what it refuses."""

import pickle

import numpy as np
import pytest
from problems import close
from scipy.stats import lognorm
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_moons
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler

from skspectral import GeneralizedGPRegressor, KernelSearchCV, SpectralGPClassifier
from skspectral.learning.latent_objective import LatentObjective, approximate_evidence

ignore_bounds = pytest.mark.filterwarnings("ignore::skspectral.KernelBoundWarning")


def two_classes(seed=0, n=60, p=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    f = 2.0 * np.sin(1.5 * X @ rng.normal(size=p)) + 0.3
    return X, (f + 0.5 * rng.logistic(size=n) > 0).astype(int)


def three_classes(seed=0, n=60):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.argmax(X @ rng.normal(size=(2, 3)) + 0.5 * rng.gumbel(size=(n, 3)), axis=1)


KERNELS = [
    2.0 * RBF(0.8),
    5.0 * Matern([0.7, 1.4], nu=1.5) + 0.5 * RBF(3.0),
    3.0 * RBF(1.0) + WhiteKernel(0.1),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("method", ["exact", "low_rank"])
def test_two_classes_are_those_of_scikit_learn(kernel, method):
    X, y = two_classes()
    theirs = GaussianProcessClassifier(kernel, optimizer=None).fit(X, y)
    rank = len(y) if method == "low_rank" else None
    ours = SpectralGPClassifier(kernel, optimizer=None, fit_intercept=False, method=method, rank=rank).fit(
        X, y
    )
    expected, gradient = theirs.log_marginal_likelihood(kernel.theta, eval_gradient=True)
    assert ours.log_marginal_likelihood_value_ == pytest.approx(expected, rel=1e-6)
    mode = theirs.base_estimator_.f_cached if hasattr(theirs.base_estimator_, "f_cached") else None
    new = np.random.default_rng(1).normal(size=(10, 2))
    K_new = kernel(new, X)
    mean = K_new @ (theirs.base_estimator_.y_train_ - theirs.base_estimator_.pi_)
    assert close(ours.decision_function(new), mean, 1e-5)
    assert mode is None or close(ours._latent.fit.approximation.mode.F[:, 0], mode, 1e-6)
    if str(kernel).startswith("1.41"):
        value, slope = ours.log_marginal_likelihood(kernel.theta, eval_gradient=True)
        assert value == pytest.approx(expected, rel=1e-6)
        assert close(slope, gradient, 1e-5)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("make", [two_classes, three_classes])
def test_what_learning_descends_on_is_the_evidence_of_the_kernel_itself(kernel, make):
    task = SpectralGPClassifier(kernel, optimizer=None).fit(*make())._latent.task
    objective = LatentObjective(task)
    for variables in (task.start, task.start + 0.1):
        at = objective(variables)
        value, slope = approximate_evidence(task, variables, eval_gradient=True)
        assert close(-0.5 * at.value, value, 1e-9)
        assert close(-0.5 * at.gradient, slope, 1e-7)


def test_a_point_at_which_descents_meet_is_evaluated_once():
    task = SpectralGPClassifier(2.0 * RBF(0.8), optimizer=None).fit(*two_classes())._latent.task
    objective = LatentObjective(task)
    assert objective(task.start) is objective(task.start.copy())
    assert objective.n_calls == 1


@ignore_bounds
def test_inputs_that_few_rows_do_not_see_are_looked_at_again_on_all():
    rng = np.random.default_rng(43)
    X = rng.normal(size=(400, 5))
    y = 1.5 * X[:, 0] * X[:, 3] + np.cos(2.0 * X[:, 1]) + 0.7 * rng.logistic(size=400) > 0
    model = SpectralGPClassifier(ConstantKernel() * RBF(np.ones(5)), fit_intercept=False)
    assert (
        model.fit(X, y).log_marginal_likelihood_value_
        > clone(model).set_params(optimizer="fmin_l_bfgs_b").fit(X, y).log_marginal_likelihood_value_ - 0.01
    )


@ignore_bounds
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_learned_evidence_is_not_below_that_of_scikit_learn():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n, p = int(rng.integers(40, 90)), int(rng.integers(1, 4))
        X, y = two_classes(seed, n, p)
        kernel = ConstantKernel(1.0) * RBF(np.ones(p) if seed % 2 else 1.0)
        theirs = GaussianProcessClassifier(kernel).fit(X, y)
        ours = SpectralGPClassifier(kernel, fit_intercept=False).fit(X, y)
        assert ours.log_marginal_likelihood_value_ >= theirs.log_marginal_likelihood_value_ - 0.01


@pytest.mark.slow
def test_learned_evidence_on_breast_cancer():
    X, y = load_breast_cancer(return_X_y=True)
    X, kernel = StandardScaler().fit_transform(X), ConstantKernel(1.0) * RBF(1.0)
    theirs = GaussianProcessClassifier(kernel).fit(X, y)
    ours = SpectralGPClassifier(kernel, fit_intercept=False).fit(X, y)
    assert ours.log_marginal_likelihood_value_ >= theirs.log_marginal_likelihood_value_ - 0.01
    assert ours.n_evaluations_ < 80  # hops on few rows among them


@pytest.mark.slow
def test_digits():
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X / 16, y, train_size=800, random_state=0, stratify=y)
    model = SpectralGPClassifier().fit(X_train, y_train)
    assert model.score(X_test, y_test) >= 0.97
    assert log_loss(y_test, model.predict_proba(X_test)) <= 0.15


@ignore_bounds
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_probabilities_are_better_than_one_class_against_the_rest(load):
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=0.6, random_state=0, stratify=y)
    ours = SpectralGPClassifier().fit(X_train, y_train)
    theirs = GaussianProcessClassifier(ConstantKernel() * RBF(2.0)).fit(X_train, y_train)
    losses = [log_loss(y_test, model.predict_proba(X_test)) for model in (ours, theirs)]
    assert losses[0] < 0.5 * losses[1]


@ignore_bounds
@pytest.mark.parametrize("data", [two_classes, three_classes])
@pytest.mark.parametrize("approximation", ["laplace", "bound"])
def test_learning_ends_where_the_gradient_vanishes(data, approximation):
    X, y = data()
    model = SpectralGPClassifier(ConstantKernel() * RBF(1.0), approximation=approximation).fit(X, y)
    theta = np.append(np.log(model.signal_variance_), model.kernel_.theta)
    value, gradient = model.log_marginal_likelihood(theta, eval_gradient=True)
    assert value == pytest.approx(model.log_marginal_likelihood_value_)
    assert np.abs(gradient).max() < 0.05
    for step in 0.2 * np.vstack([np.eye(2), -np.eye(2)]):
        assert model.log_marginal_likelihood(theta + step) < value


@ignore_bounds
@pytest.mark.parametrize("approximation", ["laplace", "bound", "variational"])
def test_evidence_bounds_hold_every_approximation(approximation):
    X, y = two_classes()
    model = SpectralGPClassifier(3.0 * RBF(1.0), approximation=approximation, optimizer=None).fit(X, y)
    lower, upper = model.evidence_bounds_
    value = model.log_marginal_likelihood_value_
    assert lower <= upper
    assert value < upper
    assert {"laplace": value > lower, "bound": value < lower, "variational": abs(value - lower) < 1e-3}[
        approximation
    ]
    assert model.evidence_bounds_ is model.evidence_bounds_


@ignore_bounds
@pytest.mark.parametrize("data", [two_classes, three_classes])
def test_probabilities(data):
    X, y = data()
    model = SpectralGPClassifier(3.0 * RBF(1.0), optimizer=None).fit(X, y)
    P = model.predict_proba(X)
    assert P.shape == (60, len(model.classes_))
    assert np.allclose(P.sum(axis=1), 1.0)
    far = model.predict_proba(np.full((1, 2), 1e3))
    mean, var = model.latent_mean_and_variance(np.full((1, 2), 1e3))
    assert np.allclose(var, 3.0)
    assert np.allclose(mean, model.intercept_ if mean.ndim == 2 else model.intercept_[0])
    assert far.max() < P.max()
    assert np.array_equal(model.classes_[P.argmax(axis=1)], model.predict(X))
    mean, var = model.latent_mean_and_variance(X)
    assert mean.shape == var.shape == model.decision_function(X).shape
    assert (var > 0).all()
    assert (var < 3.0).all()


def test_labels_may_be_anything():
    X, y = three_classes()
    names = np.array(["red", "green", "blue"], dtype=object)[y]
    plain = SpectralGPClassifier(RBF(1.0), optimizer=None).fit(X, y)
    named = SpectralGPClassifier(RBF(1.0), optimizer=None).fit(X, names)
    order = [list(named.classes_).index(name) for name in ("red", "green", "blue")]
    assert np.allclose(named.predict_proba(X)[:, order], plain.predict_proba(X))
    assert set(named.predict(X)) <= {"red", "green", "blue"}


@pytest.mark.parametrize("data", [two_classes, three_classes])
def test_weights_repeat_rows(data):
    X, y = data()
    weight = np.resize([1.0, 0.0, 2.0], len(y))
    rows = np.repeat(np.arange(len(y)), weight.astype(int))
    model = SpectralGPClassifier(2.0 * RBF(1.0), optimizer=None)
    weighted, repeated = clone(model).fit(X, y, sample_weight=weight), clone(model).fit(X[rows], y[rows])
    assert close(weighted.predict_proba(X), repeated.predict_proba(X), 1e-6)
    assert weighted.log_marginal_likelihood_value_ == pytest.approx(repeated.log_marginal_likelihood_value_)


@pytest.mark.parametrize("method", ["exact", "low_rank"])
def test_a_given_matrix_is_the_kernel(method):
    X, y = three_classes()
    kernel, weight = RBF(1.0), np.resize([1.0, 2.0, 0.0, 1.0], 60)
    rank = None if method == "exact" else 45  # all rows of positive weight: the order of pivots has no part
    given = SpectralGPClassifier("precomputed", optimizer=None, method=method, rank=rank)
    made = SpectralGPClassifier(kernel, optimizer=None, method=method, rank=rank).fit(X, y, weight)
    given.fit(kernel(X), y, weight)
    new = X[:5] + 0.1
    assert close(given.predict_proba(kernel(new, X)), made.predict_proba(new), 1e-6)
    assert close(given.predict_proba(kernel(new, X), K_test_diag=np.ones(5)), made.predict_proba(new), 1e-6)


@ignore_bounds
def test_a_factor_stands_in_where_it_is_exact_to_tolerance():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (1100, 1))
    y = (np.sin(X[:, 0]) + 0.5 * rng.logistic(size=1100) > 0).astype(int)
    kernel = 4.0 * RBF(1.5)
    auto = SpectralGPClassifier(kernel, optimizer=None).fit(X, y)
    exact = SpectralGPClassifier(kernel, optimizer=None, method="exact").fit(X, y)
    assert auto._latent.fit.factor.rank < 50
    assert exact._latent.fit.factor is None
    assert auto.log_marginal_likelihood_value_ == pytest.approx(
        exact.log_marginal_likelihood_value_, abs=1e-3
    )
    assert np.abs(auto.predict_proba(X[:50]) - exact.predict_proba(X[:50])).max() < 1e-3


@ignore_bounds
def test_priors_pull_what_is_learned():
    X, y = two_classes()
    plain = SpectralGPClassifier(ConstantKernel() * RBF(1.0)).fit(X, y)
    narrow = {"signal_variance": lognorm(0.01, scale=2.0), "length_scale": lognorm(0.01, scale=0.7)}
    pulled = SpectralGPClassifier(ConstantKernel() * RBF(0.7), priors=narrow).fit(X, y)
    assert pulled.signal_variance_ == pytest.approx(2.0, rel=0.05)
    assert pulled.kernel_.length_scale == pytest.approx(0.7, rel=0.05)
    assert pulled.log_marginal_likelihood_value_ < plain.log_marginal_likelihood_value_


@ignore_bounds
def test_bounds_and_fixed_constants_are_honoured():
    X, y = two_classes()
    fixed = SpectralGPClassifier(ConstantKernel(7.0, "fixed") * RBF(1.0)).fit(X, y)
    assert fixed.signal_variance_ == 7.0
    assert fixed.log_marginal_likelihood(fixed.kernel_.theta) == pytest.approx(
        fixed.log_marginal_likelihood_value_
    )
    bounded = SpectralGPClassifier(ConstantKernel(1.0, (0.5, 1.5)) * RBF(1.0, (0.1, 0.5))).fit(X, y)
    assert 0.5 <= bounded.signal_variance_ <= 1.5 + 1e-9
    assert bounded.kernel_.length_scale <= 0.5 + 1e-9


@ignore_bounds
@pytest.mark.parametrize("optimizer", ["fmin_l_bfgs_b", "default"])
def test_optimizers_agree_and_restarts_do_no_harm(optimizer):
    X, y = two_classes()
    kernel = ConstantKernel(1.0, (0.1, 100)) * RBF(1.0, (0.1, 10))
    one = SpectralGPClassifier(kernel, optimizer=optimizer).fit(X, y)
    more = SpectralGPClassifier(kernel, optimizer=optimizer, n_restarts_optimizer=2, random_state=0).fit(X, y)
    assert more.log_marginal_likelihood_value_ >= one.log_marginal_likelihood_value_ - 1e-4
    assert one.log_marginal_likelihood_value_ == pytest.approx(
        SpectralGPClassifier(kernel).fit(X, y).log_marginal_likelihood_value_, abs=1e-3
    )


@ignore_bounds
def test_a_search_ranks_by_the_evidence_or_by_stratified_folds():
    X, y = make_moons(80, noise=0.3, random_state=0)
    grid = {"kernel": [RBF(0.1), RBF(1.0), RBF(30.0)]}
    model = SpectralGPClassifier(optimizer=None)
    by_evidence = KernelSearchCV(model, grid).fit(X, y)
    evidences = [
        clone(model).set_params(kernel=k).fit(X, y).log_marginal_likelihood_value_ for k in grid["kernel"]
    ]
    assert close(by_evidence.cv_results_["mean_test_score"], evidences)
    assert by_evidence.best_params_["kernel"] == RBF(1.0)
    folds = KernelSearchCV(model, grid, cv=3).fit(X, y)
    theirs = GridSearchCV(model, grid, cv=StratifiedKFold(3)).fit(X, y)
    assert close(folds.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"])
    with pytest.raises(ValueError, match="different criteria"):
        KernelSearchCV(model, {"approximation": ["laplace", "bound"]}).fit(X, y)


def test_pickles_predict_the_same():
    X, y = three_classes()
    model = SpectralGPClassifier(RBF(1.0), optimizer=None).fit(X, y)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), model.predict_proba(X))


def test_verbose_tells_of_steps(capsys):
    X, y = two_classes()
    SpectralGPClassifier(ConstantKernel() * RBF(1.0), verbose=1).fit(X, y)
    assert "[SpectralGPClassifier] rows 60, step 1: objective" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros(20), "class only"),
        (np.linspace(0, 1, 20), "Unknown label type"),
        (np.where(np.arange(20) < 3, np.nan, 1.0), "NaN"),
        (np.zeros((20, 2)), "1d array"),
    ],
)
def test_bad_targets_are_refused(y, message):
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match=message):
        SpectralGPClassifier().fit(X, y)


@pytest.mark.parametrize("model", [SpectralGPClassifier(), GeneralizedGPRegressor("bernoulli")])
def test_a_negative_weight_is_told_what_weights_mean_here(model):
    X, y = np.arange(6.0)[:, None], np.array([0, 1, 0, 1, 0, 1])
    with pytest.raises(ValueError, match=r"got -2 at row 3\. A weight is a power of the likelihood"):
        model.fit(X, y, sample_weight=[1.0, 1.0, 1.0, -2.0, 1.0, 1.0])


@pytest.mark.parametrize(("label", "told"), [(True, "True"), (2.5, "2.5"), ("a", "'a'")])
def test_a_single_class_is_named_as_it_was_written(label, told):
    with pytest.raises(ValueError, match=rf"one class only, {told}\."):
        SpectralGPClassifier()._encoded(np.array([label] * 3), None)


def test_other_bad_input_is_refused():
    X, y = three_classes(n=20)
    with pytest.raises(ValueError, match="Only binary classification"):
        SpectralGPClassifier(approximation="variational").fit(X, y)
    with pytest.raises(ValueError, match="class only"):
        SpectralGPClassifier().fit(X, y, sample_weight=(y == 1).astype(float))
    model = SpectralGPClassifier(RBF(1.0), optimizer=None).fit(X, y)
    with pytest.raises(ValueError, match="2 parameter"):
        model.log_marginal_likelihood([0.0])
    with pytest.raises(ValueError, match="needs a theta"):
        model.log_marginal_likelihood(eval_gradient=True)
    given = SpectralGPClassifier("precomputed", optimizer=None).fit(X @ X.T, y)
    with pytest.raises(ValueError, match="K_test_diag"):
        given.predict_proba(X @ X.T)
    with pytest.raises(ValueError, match="rank=21 is larger"):
        SpectralGPClassifier(rank=21).fit(X, y)
    with pytest.raises(AttributeError, match="not fitted"):
        _ = SpectralGPClassifier().evidence_bounds_
