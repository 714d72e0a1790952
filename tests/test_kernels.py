"""Kernels people compose: naive loops, differences, scikit-learn's own checks, bad input, whole models."""

import pickle
from dataclasses import dataclass
from itertools import chain, combinations
from math import exp, sqrt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Kernel,
    Matern,
    Product,
    StationaryKernelMixin,
    Sum,
    WhiteKernel,
)
from sklearn.gaussian_process.tests import test_kernels as sklearn_checks

from skspectral import KernelSearchCV, SpectralGPRegressor
from skspectral.kernels import (
    Columns,
    Exponential,
    KernelOverflowError,
    Normalized,
    Overlap,
    Polynomial,
    Scaled,
    SetKernel,
    SetMean,
    object_rows,
    resolve_columns,
    set_means,
)
from skspectral.kernels.algebra import contract, contract_diagonal, evaluate
from skspectral.kernels.composable import ComposableKernel
from skspectral.kernels.parts import has_white_noise, parameter_names, split_kernel
from skspectral.models import process_fitting
from skspectral.support.exceptions import IndefiniteKernelError

# --- the kernels, each with its formula for a single pair of inputs


def wave(X):
    return np.array([1.0 + 0.5 * np.sin(x[0]) - x[1] for x in X])


def rbf(a, b, length):
    return exp(-0.5 * sum(((p - q) / length) ** 2 for p, q in zip(a, b, strict=True)))


def dot(a, b, sigma_0):
    return sigma_0**2 + sum(p * q for p, q in zip(a, b, strict=True))


def overlap(a, b, lengths):
    return exp(-sum(1 / length for p, q, length in zip(a, b, lengths, strict=True) if p != q))


def cosine(k):
    return lambda a, b: k(a, b) / sqrt(k(a, a) * k(b, b))


def mean_over_pairs(k):
    return lambda A, B: sum(k(a, b) for a in A for b in B) / (len(A) * len(B))


def f(x):
    return wave([x])[0]


def mixed(a, b):
    return 1.5 * rbf(a[:1], b[:1], 0.8) + (dot(a[1:2], b[1:2], 0.4) + 0.3) * overlap(a[2:], b[2:], [0.7])


def both(a, b):
    return 0.4 * rbf(a, b, 1.3) + dot(a, b, 0.5)


@dataclass(frozen=True)
class Case:
    """A kernel, what kind of inputs it takes, and its formula."""

    kernel: Kernel
    inputs: str
    formula: object

    def __str__(self):
        return str(self.kernel)


LEARNED = (1e-3, 1e3)
CASES = [
    Case(Columns(RBF(0.8), [0]), "vectors", lambda a, b: rbf(a[:1], b[:1], 0.8)),
    Case(Columns(RBF(0.8), 1), "vectors", lambda a, b: rbf(a[1:], b[1:], 0.8)),
    Case(
        Columns(RBF([0.7, 1.9]), slice(None, None, -1)),
        "vectors",
        lambda a, b: rbf(a / [1.9, 0.7], b / [1.9, 0.7], 1),
    ),
    Case(Columns(DotProduct(0.6), [False, True]), "vectors", lambda a, b: dot(a[1:], b[1:], 0.6)),
    Case(Normalized(DotProduct(0.7)), "vectors", cosine(lambda a, b: dot(a, b, 0.7))),
    Case(Normalized(ConstantKernel(0.4) * RBF(1.3) + DotProduct(0.5)), "vectors", cosine(both)),
    Case(
        Exponential(ConstantKernel(0.4) * RBF(1.3) + DotProduct(0.5)), "vectors", lambda a, b: exp(both(a, b))
    ),
    Case(Polynomial(RBF(1.3), [0.5, 0.0, 2.0]), "vectors", lambda a, b: 0.5 + 2 * rbf(a, b, 1.3) ** 2),
    Case(
        Polynomial(DotProduct(0.6), [0.5, 1.5, 0.2], LEARNED),
        "vectors",
        lambda a, b: 0.5 + 1.5 * dot(a, b, 0.6) + 0.2 * dot(a, b, 0.6) ** 2,
    ),
    Case(Polynomial(DotProduct(0.6, "fixed"), [0.5], LEARNED), "vectors", lambda a, b: 0.5),
    Case(
        Scaled(RBF(0.9) + DotProduct(0.5), wave),
        "vectors",
        lambda a, b: f(a) * (rbf(a, b, 0.9) + dot(a, b, 0.5)) * f(b),
    ),
    Case(SetKernel("intersection"), "sets", lambda A, B: len(A & B)),
    Case(SetKernel(base=1.7), "sets", lambda A, B: 1.7 ** len(A & B)),
    Case(Normalized(SetKernel(base=1.7)), "sets", lambda A, B: 1.7 ** (-len(A ^ B) / 2)),
    Case(ConstantKernel(2.0) * SetKernel("intersection") ** 2, "sets", lambda A, B: 2 * len(A & B) ** 2),
    Case(SetMean(RBF(0.8)), "bags", mean_over_pairs(lambda a, b: rbf(a, b, 0.8))),
    Case(
        SetMean(Exponential(Columns(RBF([0.8, 1.1]), [1, 0]))),
        "bags",
        mean_over_pairs(lambda a, b: exp(rbf(np.divide(a, [1.1, 0.8]), np.divide(b, [1.1, 0.8]), 1))),
    ),
    Case(
        SetMean(Overlap([0.6, 1.4])), "bags of words", mean_over_pairs(lambda a, b: overlap(a, b, [0.6, 1.4]))
    ),
    Case(Overlap(0.6), "categories", lambda a, b: overlap(a, b, [0.6] * 3)),
    Case(Overlap([0.6, 1.4, 3.0]), "categories", lambda a, b: overlap(a, b, [0.6, 1.4, 3.0])),
    Case(Overlap([0.6]), "categories", lambda a, b: overlap(a, b, [0.6] * 3)),
    Case(Overlap(kind="fraction"), "categories", lambda a, b: sum(a == b) / 3),
    Case(Overlap([0.6, 1.4], [(0.1, 1.0), (0.2, 2.0)]), "vectors", lambda a, b: overlap(a, b, [0.6, 1.4])),
    Case(
        ConstantKernel(1.5) * Columns(RBF(0.8), [0], mixed=True)
        + (Columns(DotProduct(0.4), 1, mixed=True) + ConstantKernel(0.3, "fixed"))
        * Columns(Overlap(0.7), [-1]),
        "table",
        mixed,
    ),
    Case(
        Normalized(Exponential(Polynomial(Columns(Matern(1.2, nu=1.5), [0]), [0.2, 0.5], LEARNED))),
        "vectors",
        cosine(
            lambda a, b: exp(
                0.5 * (1 + sqrt(3) * abs(a[0] - b[0]) / 1.2) * exp(-sqrt(3) * abs(a[0] - b[0]) / 1.2)
            )
        ),
    ),
]
WITH_NOISE = [
    Case(Normalized(DotProduct(0.7) + WhiteKernel(0.3)), "vectors", None),
    Case(Exponential(Columns(RBF(0.7), [0]) + WhiteKernel(0.3)), "vectors", None),
    Case(Scaled(WhiteKernel(0.3), wave) + RBF(0.9), "vectors", None),
    Case(SetMean(RBF(0.7) + WhiteKernel(0.3)), "bags", None),
]

each_case = pytest.mark.parametrize("case", CASES, ids=str)
each_case_and_noise = pytest.mark.parametrize("case", CASES + WITH_NOISE, ids=str)
VECTOR_CASES = [case for case in CASES if case.inputs == "vectors"]


def make_inputs(kind, n, rng):
    """Return n inputs of a kind; some of them are equal."""
    if kind == "vectors":
        return np.append(rng.normal(size=(n - 1, 2)), [[0.5, -1.0]], axis=0)
    if kind == "categories":
        return rng.choice(np.array(["red", "blue", "green"]), size=(n, 3))
    if kind == "table":
        return np.column_stack([rng.normal(size=(n, 2)).astype(object), rng.choice(["red", "blue"], size=n)])
    rows = np.empty(n, dtype=object)
    for i in range(n):
        rows[i] = _make_object(kind, i, rng)
    return rows


def _make_object(kind, i, rng):
    if kind == "sets":
        return frozenset(rng.choice(list("abcdefg"), size=rng.integers(1, 6)).tolist())
    if kind == "bags":
        return rng.normal(size=(1 + i % 4, 2)).tolist()
    return [tuple(rng.choice(["red", "blue"], size=2).tolist()) for _ in range(1 + i % 3)]


@pytest.fixture
def inputs(rng):
    return lambda kind: (make_inputs(kind, 11, rng), make_inputs(kind, 4, rng))


def differences(kernel, value, h=1e-5):
    """Return central differences by theta of an array that depends on the kernel."""
    steps = h * np.eye(kernel.n_dims)
    pairs = [
        [value(kernel.clone_with_theta(kernel.theta + sign * step)) for sign in (1, -1)] for step in steps
    ]
    return np.array([(ahead - behind) / (2 * h) for ahead, behind in pairs])


# --- values and derivatives


@each_case
def test_values_are_those_of_a_double_loop(case, inputs):
    X, Z = inputs(case.inputs)
    square, cross = ([[case.formula(x, z) for z in right] for x in X] for right in (X, Z))
    for value in (case.kernel, lambda *both: evaluate(case.kernel, *both)):
        assert np.allclose(value(X), square, rtol=1e-12, atol=1e-12)
        assert np.allclose(value(X, Z), cross, rtol=1e-12, atol=1e-12)
    assert np.allclose(case.kernel.diag(X), np.diag(square), rtol=1e-12)


@each_case_and_noise
def test_gradients_are_limits_of_differences(case, inputs):
    X, _ = inputs(case.inputs)
    K, gradient = case.kernel(X, eval_gradient=True)
    assert np.allclose(K, case.kernel(X), rtol=1e-12)
    assert gradient.shape == (11, 11, case.kernel.n_dims)
    expected = differences(case.kernel, lambda kernel: kernel(X))
    assert np.allclose(np.moveaxis(gradient, 2, 0), expected.reshape(-1, 11, 11), rtol=1e-6, atol=1e-8)


@each_case_and_noise
def test_contraction_equals_the_tensor(case, inputs, rng):
    X, _ = inputs(case.inputs)
    G = rng.normal(size=(11, 11))
    G += G.T
    expected = np.einsum("ij,ijp->p", G, case.kernel(X, eval_gradient=True)[1])
    assert np.allclose(contract(case.kernel, G, X), expected, rtol=1e-9, atol=1e-10)


@each_case_and_noise
def test_contraction_between_two_sets_equals_differences(case, inputs, rng):
    X, Z = inputs(case.inputs)
    G = rng.normal(size=(11, 4))
    expected = differences(case.kernel, lambda kernel: np.sum(G * kernel(X, Z)))
    assert np.allclose(contract(case.kernel, G, X, Z), expected, rtol=1e-7, atol=1e-7)


@each_case_and_noise
def test_contraction_of_the_diagonal_equals_differences(case, rng):
    X, g = make_inputs(case.inputs, 150, rng), rng.normal(size=150)  # more than two blocks
    expected = differences(case.kernel, lambda kernel: g @ kernel.diag(X))
    assert np.allclose(contract_diagonal(case.kernel, g, X), expected, rtol=1e-7, atol=1e-7)


@each_case_and_noise
def test_contraction_makes_no_tensor(case, inputs, monkeypatch):
    X, Z = inputs(case.inputs)
    expected = contract(case.kernel, np.ones((11, 11)), X)

    def refuse(method):
        def guarded(self, X, Y=None, eval_gradient=False):
            assert not eval_gradient, f"the tensor of {self} was made"
            return method(self, X, Y)

        return guarded

    for kind in (ComposableKernel, RBF, Matern, DotProduct, ConstantKernel, WhiteKernel, Sum, Product):
        monkeypatch.setattr(kind, "__call__", refuse(kind.__call__))
    assert np.array_equal(contract(case.kernel, np.ones((11, 11)), X), expected)
    contract(case.kernel, np.ones((11, 4)), X, Z)


@pytest.mark.parametrize("case", WITH_NOISE, ids=str)
def test_noise_inside_is_on_the_diagonal_of_one_set_of_rows_only(case, inputs):
    X, _ = inputs(case.inputs)
    square, cross = evaluate(case.kernel, X), evaluate(case.kernel, X, X)
    assert np.allclose(np.diag(square), case.kernel.diag(X), rtol=1e-12)
    assert (np.diag(square) > np.diag(cross) + 0.01).all()
    off = ~np.eye(11, dtype=bool)
    assert np.allclose(square[off], cross[off], rtol=1e-12)


def test_noise_of_elements_is_divided_among_them():
    rows = [[[0.0], [9.0]], [[3.0]]]
    white = SetMean(WhiteKernel(0.6) + RBF(1.0))(rows) - SetMean(RBF(1.0))(rows)
    assert np.allclose(white, np.diag([0.3, 0.6]))


@pytest.mark.slow
@each_case_and_noise
@given(n=st.integers(2, 25), seed=st.integers(0, 10**6))
def test_matrices_are_positive_semi_definite_at_any_parameters(case, n, seed):
    rng = np.random.default_rng(seed)
    X = make_inputs(case.inputs, n, rng)
    low, high = case.kernel.bounds.reshape(-1, 2).T
    theta = rng.uniform(np.maximum(low, -2.0), np.minimum(high, 1.5))
    K = case.kernel.clone_with_theta(theta)(X)
    assert np.allclose(K, K.T, rtol=1e-12, atol=1e-12 * np.abs(K).max())
    eigenvalues = np.linalg.eigvalsh(K)
    assert eigenvalues[0] >= -1e-12 * n * max(1.0, eigenvalues[-1])


def test_inputs_are_not_modified_and_may_be_read_only(rng):
    for case in CASES:
        X = make_inputs(case.inputs, 6, rng)
        before = pickle.dumps(X)
        X.flags.writeable = False
        case.kernel(X, eval_gradient=True)
        contract(case.kernel, np.eye(6), X)
        assert pickle.dumps(X) == before


# --- what scikit-learn asks of kernels, by its own tests, on inputs of the right kind

CHECKS = [
    sklearn_checks.test_kernel_gradient,
    sklearn_checks.test_kernel_diag,
    sklearn_checks.test_kernel_clone,
    sklearn_checks.test_kernel_clone_after_set_params,
    sklearn_checks.test_set_get_params,
    sklearn_checks.test_repr_kernels,
    sklearn_checks.test_kernel_input_type,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@each_case_and_noise
def test_scikit_learns_checks_of_kernels(case, check, inputs, monkeypatch):
    X, Z = inputs(case.inputs)
    monkeypatch.setattr(sklearn_checks, "X", X[:5])
    monkeypatch.setattr(sklearn_checks, "Y", Z)
    check(case.kernel)


@each_case
def test_scikit_learns_check_of_auto_and_cross(case, inputs, monkeypatch):
    monkeypatch.setattr(sklearn_checks, "X", inputs(case.inputs)[0])
    sklearn_checks.test_auto_vs_cross(case.kernel)


@pytest.mark.parametrize("case", VECTOR_CASES, ids=str)
def test_scikit_learns_checks_of_pairwise_kernels_and_stationarity(case):
    sklearn_checks.test_kernel_versus_pairwise(case.kernel)
    if case.kernel.is_stationary():
        sklearn_checks.test_kernel_stationary(case.kernel)


@pytest.mark.parametrize(
    ("kernel", "kind"), [(SetKernel(base=1.7), "sets"), (Overlap(0.6), "categories")], ids=str
)
def test_scikit_learns_check_of_theta(kernel, kind, inputs, monkeypatch):
    monkeypatch.setattr(sklearn_checks, "X", inputs(kind)[0])
    sklearn_checks.test_kernel_theta(kernel)


@each_case_and_noise
def test_theta_bounds_and_names_go_together(case):
    kernel = case.kernel
    free = [h for h in kernel.hyperparameters if not h.fixed]
    params = kernel.get_params(deep=True)
    values = [np.atleast_1d(params[h.name]) for h in free]
    assert np.allclose(np.exp(kernel.theta), np.concatenate([np.empty(0), *values]))
    assert len(parameter_names(kernel)) == kernel.n_dims == sum(h.n_elements for h in free)
    if kernel.n_dims:
        assert np.allclose(np.exp(kernel.bounds), np.vstack([h.bounds for h in free]))
    moved = kernel.clone_with_theta(kernel.theta + 0.1)
    assert np.allclose(moved.theta, kernel.theta + 0.1)
    assert (moved == kernel) == (kernel.n_dims == 0)


def test_names_of_nested_parameters():
    kernel = Polynomial(Normalized(Columns(RBF([1.0, 2.0]), [0, 1])), [1.0, 2.0], (0.1, 10.0))
    assert parameter_names(kernel) == [
        "coefficients[0]",
        "coefficients[1]",
        "kernel__kernel__kernel__length_scale[0]",
        "kernel__kernel__kernel__length_scale[1]",
    ]
    kernel.set_params(kernel__kernel__columns=[1, 2], kernel__kernel__kernel__length_scale=3.0)
    assert kernel.kernel.kernel == Columns(RBF(3.0), [1, 2])
    assert "kernel__kernel" in kernel.get_params()
    assert set(kernel.get_params(deep=False)) == {"kernel", "coefficients", "coefficients_bounds"}


def test_fixed_parameters_are_left_out():
    for kernel in (
        Exponential(RBF(1.0, "fixed")),
        SetKernel(base_bounds="fixed"),
        Overlap([1.0, 2.0], "fixed"),
        SetMean(RBF(1.0, "fixed")),
    ):
        assert kernel.n_dims == 0
        assert kernel.theta.shape == kernel.bounds.shape == (0,)
    X = np.array([[0.0, 1.0], [1.0, 1.0]])
    assert Overlap([1.0, 2.0], "fixed")(X, eval_gradient=True)[1].shape == (2, 2, 0)
    assert contract(Polynomial(RBF(1.0), [1.0, 2.0]), np.ones((2, 2)), X).shape == (1,)


@each_case
def test_pickling_and_cloning_give_equal_kernels(case, inputs):
    X, _ = inputs(case.inputs)
    for copy in (pickle.loads(pickle.dumps(case.kernel)), clone(case.kernel)):
        assert copy == case.kernel
        assert repr(copy) == repr(case.kernel)
        assert np.array_equal(copy(X), case.kernel(X))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (Columns(RBF(), [0]), Columns(RBF(), [1])),
        (Columns(RBF(), [0]), Columns(RBF(), [0, 1])),
        (Columns(RBF(), [0]), Columns(RBF(2.0), [0])),
        (Columns(RBF(), [0]), Columns(RBF(), [0], mixed=True)),
        (Columns(RBF(), "a"), Columns(RBF(), ["a", "b"])),
        (Columns(RBF(), slice(0, 2)), Columns(RBF(), slice(0, 3))),
        (Normalized(RBF()), Exponential(RBF())),
        (Polynomial(RBF(), [1.0]), Polynomial(RBF(), np.array([1.0, 2.0]))),
        (Polynomial(RBF(), np.array([1.0, 3.0, 1.0])), Polynomial(RBF(), np.array([1.0, 2.0]))),
        (Scaled(RBF(), wave), Scaled(RBF(), f)),
        (SetKernel(base=2.0), SetKernel(base=3.0)),
        (SetKernel(), SetKernel("intersection")),
        (Overlap(1.0), Overlap(1.0, (0.1, 1.0))),
        (Overlap(1.0), Overlap([1.0, 1.0])),
        (Normalized(RBF()), 3),
    ],
    ids=str,
)
def test_kernels_that_differ_are_not_equal(a, b):
    assert a != b
    assert a == clone(a)


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (Columns(RBF(), "age"), "Columns(RBF(length_scale=1), columns='age')"),
        (Columns(RBF(), [0, 1], mixed=True), "Columns(RBF(length_scale=1), columns=[0, 1], mixed=True)"),
        (Columns(RBF(), np.array([2, 0])), "Columns(RBF(length_scale=1), columns=[2, 0])"),
        (Columns(RBF(), slice(1, None)), "Columns(RBF(length_scale=1), columns=slice(1, None, None))"),
        (Normalized(2.0 * RBF()), "Normalized(1.41**2 * RBF(length_scale=1))"),
        (Exponential(RBF()) + 1.0, "Exponential(RBF(length_scale=1)) + 1**2"),
        (Polynomial(RBF(), np.array([1 / 3, 2])), "Polynomial(RBF(length_scale=1), coefficients=[0.333, 2])"),
        (Scaled(RBF(), wave), "Scaled(RBF(length_scale=1), function=wave)"),
        (SetKernel(), "SetKernel(base=2)"),
        (SetKernel("intersection"), "SetKernel(kind='intersection')"),
        (SetMean(RBF()), "SetMean(RBF(length_scale=1))"),
        (Overlap([1.0, 1 / 3]), "Overlap(length_scale=[1, 0.333])"),
        (Overlap(kind="fraction"), "Overlap(kind='fraction')"),
    ],
    ids=str,
)
def test_kernels_can_be_read(kernel, text):
    assert repr(kernel) == text


def test_stationary_kernels_stay_so_where_they_can():
    assert Columns(RBF(), [0]).is_stationary()
    assert Normalized(RBF()).is_stationary()
    assert Exponential(RBF()).is_stationary()
    assert Polynomial(RBF(), [1.0, 1.0]).is_stationary()
    for kernel in (Columns(DotProduct(), [0]), Scaled(RBF(), wave), SetKernel(), SetMean(RBF()), Overlap()):
        assert not kernel.is_stationary()


def test_kernels_that_need_vectors_say_so():
    for kernel in (Columns(RBF(), 0), Normalized(RBF()), Exponential(RBF()), Scaled(RBF(), wave)):
        assert kernel.requires_vector_input
    for kernel in (
        SetKernel(),
        Normalized(SetKernel()),
        SetMean(RBF()),
        Overlap(),
        Columns(Overlap(), 0),
        Columns(RBF(), 0, mixed=True),
    ):
        assert not kernel.requires_vector_input


def test_kernels_operate_with_scikit_learns_and_numbers(rng):
    X = rng.normal(size=(6, 2))
    ours, theirs = Exponential(RBF(0.7)), RBF(1.3)
    assert np.allclose((ours + theirs)(X), ours(X) + theirs(X))
    assert np.allclose((theirs * ours)(X), ours(X) * theirs(X))
    assert np.allclose((ours**2)(X), ours(X) ** 2)
    assert np.allclose((3.0 * ours)(X), (ours * 3.0)(X))
    assert np.allclose((1.0 + ours)(X), (ours + 1.0)(X))


# --- the protocol by which kernels join in


class Cosine(StationaryKernelMixin, Kernel):
    """A kernel from elsewhere: cos(frequency (x - z)) of one column, with both methods of the protocol."""

    def __init__(self, frequency=1.0, frequency_bounds=(0.1, 10.0)):
        self.frequency = frequency
        self.frequency_bounds = frequency_bounds

    @property
    def hyperparameter_frequency(self):
        return sklearn_hyperparameter("frequency", "numeric", self.frequency_bounds)

    def __call__(self, X, Y=None, eval_gradient=False):
        raise AssertionError("evaluate and contract must ask for the methods of the protocol")

    def diag(self, X):
        return np.ones(len(X))

    def _evaluate(self, X, Z=None):
        return np.cos(self.frequency * np.subtract.outer(X[:, 0], (X if Z is None else Z)[:, 0]))

    def _contract(self, G, X, Z=None):
        angle = self.frequency * np.subtract.outer(X[:, 0], (X if Z is None else Z)[:, 0])
        return np.array([-np.sum(G * angle * np.sin(angle))])


def sklearn_hyperparameter(*specification):
    from sklearn.gaussian_process.kernels import Hyperparameter

    return Hyperparameter(*specification)


@pytest.mark.parametrize(
    "wrap", [lambda k: k, lambda k: RBF(0.8) * k + RBF(2.0), lambda k: Normalized(Exponential(k))]
)
def test_a_kernel_from_elsewhere_joins_in_by_two_methods(wrap, rng):
    kernel, X, Z = wrap(Cosine(1.3)), rng.normal(size=(6, 1)), rng.normal(size=(3, 1))
    G = rng.normal(size=(6, 3))
    expected = differences(kernel, lambda moved: np.sum(G * evaluate(moved, X, Z)))
    assert np.allclose(contract(kernel, G, X, Z), expected, rtol=1e-7)
    G = np.diag(rng.normal(size=6)) + 0.1
    expected = differences(kernel, lambda moved: np.sum(G * evaluate(moved, X)))
    assert np.allclose(contract(kernel, G, X), expected, rtol=1e-7)


def test_the_split_into_signal_and_noise_leaves_kernels_alone():
    inner = Exponential(ConstantKernel(3.0) * RBF() + WhiteKernel(0.1))
    parts = split_kernel(ConstantKernel(2.0) * inner + WhiteKernel(0.5))
    assert parts.core == inner
    assert (parts.signal_start, parts.noise_start) == (2.0, 0.5)
    assert has_white_noise(inner)
    assert not has_white_noise(SetKernel())
    whole = Columns(ConstantKernel(2.0) * RBF() + WhiteKernel(), [0])
    parts = split_kernel(whole)
    assert parts.core == whole
    assert parts.signal_start is parts.noise_start is None


# --- columns


def test_all_ways_to_name_columns_agree(rng):
    X = rng.normal(size=(5, 4))
    frame = pd.DataFrame(X, columns=list("abcd"))
    expected = RBF(0.8)(X[:, [1, 3]])
    ways = [
        [1, 3],
        (1, 3),
        np.array([-3, -1]),
        slice(1, None, 2),
        [False, True] * 2,
        np.array([0, 1, 0, 1], bool),
    ]
    for columns in ways:
        assert np.array_equal(Columns(RBF(0.8), columns)(X), Columns(RBF(0.8), [1, 3])(X))
        assert np.allclose(Columns(RBF(0.8), columns)(frame), expected, rtol=1e-12)
        assert Columns(RBF(0.8), columns).resolved(list("abcd")).columns == [1, 3]
    named = Columns(RBF(0.8), ["b", "d"])
    assert np.allclose(named(frame, frame[::-1]), expected[:, ::-1], rtol=1e-12)
    assert np.allclose(Normalized(2.0 * named)(frame[::-1].reset_index()), expected[::-1, ::-1], rtol=1e-12)
    assert np.allclose(named.diag(frame), 1.0)
    assert np.allclose(Columns(DotProduct(), "c")(frame), Columns(DotProduct(), [2])(X))


def test_columns_are_counted_from_both_ends(rng):
    X = rng.normal(size=(5, 2))
    for column, position in ((-2, 0), (-1, 1), (0, 0), (1, 1)):
        assert np.array_equal(Columns(RBF(), column)(X), Columns(RBF(), [position])(X))


def test_repeated_columns_count_twice(rng):
    X = rng.normal(size=(5, 2))
    assert np.allclose(Columns(RBF(1.0), [0, 0])(X), RBF(1 / np.sqrt(2))(X[:, :1]))


def test_names_are_resolved_everywhere_in_a_kernel_and_leave_the_original_alone():
    inner = Columns(Columns(RBF(), ["c"]) * Columns(RBF(2.0), 0), ["a", "c"])
    kernel = 2.0 * Normalized(inner) ** 2 + SetMean(Columns(RBF(), "b")) + WhiteKernel()
    resolved = resolve_columns(kernel, np.array(["a", "b", "c"]))
    expected = Columns(Columns(RBF(), [1]) * Columns(RBF(2.0), [0]), [0, 2])
    assert resolved == 2.0 * Normalized(expected) ** 2 + SetMean(Columns(RBF(), [1])) + WhiteKernel()
    assert inner.columns == ["a", "c"]
    assert inner.resolved("abc") == expected


def test_columns_of_a_mixed_table_are_numbers_where_the_kernel_needs_them():
    frame = pd.DataFrame({"size": [1, 2], "colour": ["red", "blue"]})
    assert np.allclose(Columns(RBF(), ["size"])(frame), RBF()([[1.0], [2.0]]))
    assert np.allclose(Columns(Overlap(), ["colour"])(frame), [[1, exp(-1)], [exp(-1), 1]])


# --- limits and identities


def test_normalising_what_has_unit_variance_changes_nothing(rng):
    X = rng.normal(size=(6, 2))
    assert np.allclose(Normalized(7.0 * RBF(0.8))(X), RBF(0.8)(X), rtol=1e-12)
    assert np.array_equal(Normalized(DotProduct(0.3)).diag(X), np.ones(6))


def test_normalised_inputs_without_direction_have_kernel_0():
    kernel = Normalized(Polynomial(DotProduct(0.0, "fixed"), [0.0, 1.0, 0.5]) * ConstantKernel(2.0))
    X = np.array([[0.0], [1.0], [2.0]])
    K, gradient = kernel(X, eval_gradient=True)
    assert np.array_equal(K[0], np.zeros(3))
    assert np.array_equal(kernel.diag(X), [0.0, 1.0, 1.0])
    assert np.allclose(gradient, 0.0)  # a constant inside cancels
    assert np.allclose(contract(kernel, np.ones((3, 3)), X), 0.0)
    assert np.array_equal(Normalized(SetKernel("intersection"))([set(), {1}]), [[0.0, 0.0], [0.0, 1.0]])


def test_normalising_survives_extreme_scales():
    X = np.array([[1e-150], [2e-150], [1e150]])
    assert np.allclose(Normalized(DotProduct(0.0, "fixed"))(X), 1.0)
    assert np.isfinite(Normalized(DotProduct(0.0, "fixed"))(X * [[1e-10], [1.0], [1.0]])).all()


def test_a_normalised_exponential_is_the_gaussian_of_the_distance_in_feature_space(rng):
    X = rng.normal(size=(6, 2))
    linear = DotProduct(0.0, "fixed")
    assert np.allclose(Normalized(Exponential(linear))(X), RBF(1.0)(X), rtol=1e-12)


def test_polynomials_that_do_nothing_and_powers(rng):
    X = rng.normal(size=(6, 2))
    assert np.allclose(Polynomial(DotProduct(0.5), [0, 1])(X), DotProduct(0.5)(X))
    assert np.allclose(Polynomial(DotProduct(0.5), [0, 0, 0, 2])(X), 2 * DotProduct(0.5)(X) ** 3)
    assert np.allclose(
        Polynomial(DotProduct(0.5), [1, 1, 1 / 2, 1 / 6])(0.1 * X),
        Exponential(DotProduct(0.5))(0.1 * X),
        1e-2,
    )


def powerset(things):
    return set(map(frozenset, chain.from_iterable(combinations(things, r) for r in range(len(things) + 1))))


@pytest.mark.parametrize("base", [1.0, 1.3, 2.0, 5.0])
def test_the_set_kernel_counts_common_subsets_by_weight(base):
    sets = [set(), {1}, {1, 2, 3}, {2, 3, 4, 5}, {"a", 1}, {(1, 2), None}]
    common = [[sum((base - 1) ** len(S) for S in powerset(A) & powerset(B)) for B in sets] for A in sets]
    assert np.allclose(SetKernel(base=base)(sets), common, rtol=1e-12)


def test_lists_arrays_and_unknown_elements_of_sets():
    kernel = SetKernel("intersection")
    assert np.array_equal(kernel([["a", "a", "b"], ("b", "c")]), [[2, 1], [1, 2]])
    assert np.array_equal(kernel(np.array([["a", "b"], ["b", "c"]])), [[2, 1], [1, 2]])
    assert np.array_equal(kernel([{1, 2}, {9}], [{2, 3}]), [[1], [0]])
    assert np.array_equal(kernel([set()], [set(), {1}]), [[0, 0]])
    assert np.array_equal(kernel.diag([["a", "a", "b"], set()]), [2, 0])
    assert np.array_equal(SetKernel()([set(), set()]), np.ones((2, 2)))


def test_means_over_single_elements_and_numbers(rng):
    X = rng.normal(size=(5, 2))
    assert np.allclose(SetMean(RBF(0.8))(X[:, None]), RBF(0.8)(X))
    assert np.allclose(SetMean(RBF(0.8))([{1.0}, [1.0, 1.0]]), 1.0)
    assert np.allclose(SetMean(RBF(0.8))([{(1.0, 2.0)}, [(1.0, 2.0)]]), 1.0)
    twice = SetMean(DotProduct(0.0))([[1.0, 1.0, 4.0]])  # what stands twice counts twice
    assert np.allclose(twice, 4.0)


@pytest.mark.parametrize("largest", [1, 60, 200, 10**6])
@pytest.mark.parametrize("kernel", [SetMean(RBF(0.7)), SetMean(RBF(0.7) + WhiteKernel(0.3))], ids=str)
def test_blocks_of_sets_make_no_difference(kernel, largest, inputs, rng, monkeypatch):
    X, Z = inputs("bags")
    G = rng.normal(size=(11, 11))
    G += G.T
    expected = kernel(X), kernel(X, Z), contract(kernel, G, X), contract(kernel, G[:, :4], X, Z)
    monkeypatch.setattr(set_means, "_LARGEST_BLOCK", largest)
    found = kernel(X), kernel(X, Z), contract(kernel, G, X), contract(kernel, G[:, :4], X, Z)
    for one, other in zip(found, expected, strict=True):
        assert np.allclose(one, other, rtol=1e-12, atol=1e-13)


def test_blocks_of_sets_are_as_large_as_they_may_be():
    bags = set_means._Bags.read([np.ones((size, 1)) for size in (3, 2, 5, 1, 1, 9)], float)
    largest = set_means._LARGEST_BLOCK
    assert list(bags.blocks(largest // 5)) == [slice(0, 2), slice(2, 3), slice(3, 5), slice(5, 6)]
    assert list(bags.blocks(1)) == [slice(0, 6)]


def test_overlap_between_a_constant_and_equality():
    X = np.array([["a", "b"], ["a", "c"], ["a", "b"]])
    assert np.allclose(Overlap(1e9)(X), 1.0)
    assert np.allclose(Overlap(1e-3)(X), [[1, 0, 1], [0, 1, 0], [1, 0, 1]])
    assert np.allclose(Overlap([1e-3, 1e9])(X), 1.0)
    assert np.allclose(Overlap(0.5)(X)[0, 1], exp(-2))


@pytest.mark.parametrize(
    "X",
    [
        [[1, 2], [1, 3]],
        np.array([[1, 2], [1, 3]]),
        np.array([[1.0, 0.2], [1.0, 0.3]]),
        np.array([[True, True], [True, False]]),
        np.array([[2**53, 2**53], [2**53, 2**53 + 1]]),  # equal as float64
        np.array([[2**53, -(2**53)], [2**53, -(2**53) - 1]]),
        np.array([["x", 2], ["x", "2"]], dtype=object),
        [["x", 2], ["x", "2"]],
        np.array([[None, ("a", 1)], [None, ("a", 2)]], dtype=object)[:, :2],
        pd.DataFrame({"a": ["x", "x"], "b": [1, 2]}),
    ],
    ids=str,
)
def test_categories_may_be_anything(X):
    assert np.array_equal(Overlap(kind="fraction")(X), [[1, 0.5], [0.5, 1]])
    assert np.array_equal(Overlap(kind="fraction")(X, X), [[1, 0.5], [0.5, 1]])


def test_categories_are_the_same_in_both_tables():
    assert np.array_equal(
        Overlap(kind="fraction")([["b"], ["a"]], [["a"], ["b"], ["z"]]), [[0, 1, 0], [1, 0, 0]]
    )
    assert np.array_equal(Overlap(kind="fraction")(np.array([[1.0]]), [[1], [2]]), [[1, 0]])


def test_single_precision_and_lists_lose_nothing(rng):
    X = rng.normal(size=(6, 2)).astype(np.float32)
    expected = np.exp(RBF(0.3)(X.astype(np.float64)))
    assert np.allclose(Exponential(RBF(0.3))(X), expected, rtol=1e-13)
    assert np.allclose(Exponential(RBF(0.3))(X.tolist()), expected, rtol=1e-13)
    assert np.allclose(Exponential(RBF(0.3))(pd.DataFrame(X)), expected, rtol=1e-13)


def test_rows_of_objects_are_what_estimators_take():
    rows = object_rows([[1, 2], [3], {4}, np.array([[1.0], [2.0]]), [np.array([1.0, 2.0])], "text"])
    assert rows.shape == (6,)
    assert list(rows) == [[1, 2], [3], {4}, [[1.0], [2.0]], [[1.0, 2.0]], "text"]
    assert object_rows(np.zeros((2, 1, 1))).tolist() == [[[0.0]], [[0.0]]]


# --- bad input

ROWS = np.zeros((3, 2))


class Variance(RBF):
    """A kernel that claims a diagonal it does not have."""

    def diag(self, X):
        return np.full(len(X), self.length_scale)

    def __call__(self, X, Y=None, eval_gradient=False):
        return np.ones((len(X), len(X)))


BAD = [
    (lambda: Normalized("rbf"), "Normalized is made of a kernel, got 'rbf'.*RBF()"),
    (lambda: Columns(2.0, [0]), "Columns is made of a kernel, got 2.0"),
    (lambda: Normalized(RBF())(ROWS, ROWS, eval_gradient=True), "eval_gradient=True is for K.X, X. alone"),
    (lambda: Columns(RBF(), 2)(ROWS), "Column 2 does not exist: X has 2 columns"),
    (lambda: Columns(RBF(), [0, -3])(ROWS), "Column -3 does not exist"),
    (lambda: Columns(RBF(), [])(ROWS), r"columns=\[\] chooses none of the 2 columns"),
    (lambda: Columns(RBF(), slice(2, 5))(ROWS), "chooses none of the 2 columns"),
    (lambda: Columns(RBF(), [False, False])(ROWS), "chooses none"),
    (lambda: Columns(RBF(), [True])(ROWS), "mask has 1 entries but X has 2 columns"),
    (lambda: Columns(RBF(), True)(ROWS), "True is not a column"),
    (lambda: Columns(RBF(), [0, True])(ROWS), "True is not a column"),
    (lambda: Columns(RBF(), 0.5)(ROWS), "0.5 is not a column.*names"),
    (lambda: Columns(RBF(), slice("a", "b"))(ROWS), "slice between names.*list of names"),
    (lambda: Columns(RBF(), slice(None, "b"))(ROWS), "slice between names"),
    (lambda: Columns(RBF(), "a")(ROWS), "'a' is a name, but X is an array.*resolve_columns"),
    (lambda: Columns(RBF(), ["a", "z"])(pd.DataFrame(ROWS, columns=["a", "b"])), "'z' does not exist among"),
    (lambda: Columns(RBF(), "a").resolved(["a", "a"]), "'a' exists 2 times among"),
    (lambda: Columns(RBF(), 5).resolved(["a", "b"]), "Column 5 does not exist: X has 2"),
    (lambda: Columns(RBF([1.0, 2.0]), 0)(ROWS), "length_scale has 2 entries but the kernel sees 1 columns"),
    (lambda: Columns(RBF(), 0)(np.zeros(3)), r"columns of a table, got X of shape \(3,\)"),
    (lambda: Columns(RBF(), 0)(np.array([["red"]])), "not numbers.*red.*Overlap"),
    (lambda: Columns(RBF(), 0)(np.array([[None], [1.0]], dtype=object)), "NaN or infinite entries"),
    (lambda: Columns(RBF(), 0)(np.array([[np.inf], [1.0]], dtype=object)), "NaN or infinite entries"),
    (
        lambda: Polynomial(RBF(), [1.0, -1.0])(ROWS),
        r"coefficients=\[1.0, -1.0\] do not make a kernel.*negative",
    ),
    (lambda: Polynomial(RBF(), [0.0, 0.0])(ROWS), "at least one is positive"),
    (lambda: Polynomial(RBF(), [])(ROWS), "at least one is positive"),
    (lambda: Polynomial(RBF(), [np.nan])(ROWS), "finite"),
    (lambda: Polynomial(RBF(), [[1.0], [2.0]])(ROWS), "do not make a kernel"),
    (
        lambda: Polynomial(RBF(), [1.0, 0.0], (1e-3, 1.0)).theta,
        "A coefficient of 0 cannot be learned.*'fixed'",
    ),
    (lambda: Scaled(RBF(), lambda X: X)(ROWS), r"each of the 3 rows, and returned shape \(3, 2\)"),
    (lambda: Scaled(RBF(), lambda X: X[:, 0] * np.nan)(ROWS), "not finite"),
    (lambda: Normalized(Variance(-1.0))(ROWS), r"finite k\(x, x\) >= 0.*between -1 and -1"),
    (lambda: Normalized(Variance(np.inf))(ROWS), r"finite k\(x, x\) >= 0"),
    (lambda: Normalized(Variance(np.nan)).diag(ROWS), r"finite k\(x, x\) >= 0"),
    (lambda: SetKernel("union")([{1}]), "kind='union' is unknown. Pass one of 'subsets', 'intersection'"),
    (lambda: SetKernel(base=0.9)([{1}]), "base=0.9 does not make a kernel.*at least 1"),
    (lambda: SetKernel(base=np.nan)([{1}]), "base=nan does not make a kernel"),
    (lambda: SetKernel(base=np.inf)([{1}]), "base=inf does not make a kernel"),
    (lambda: SetKernel()([{1}, 5]), "Row 1 is 5, but .*not iterable. Pass a set or list of hashable things"),
    (lambda: SetKernel()(["some text"]), "Row 0 is 'some text', which is a text. Pass a set.*split"),
    (lambda: SetKernel()([[[1, 2]]]), "unhashable.*tuples in place of lists"),
    (lambda: SetMean(RBF())([[[1.0]], []]), "Row 1 has shape .*non-empty.*no mean"),
    (lambda: SetMean(RBF())([[[1.0]], [[]]]), "Row 1 has shape .*non-empty"),
    (lambda: SetMean(RBF())([[[1.0]], [[[1.0]]]]), "Row 1 has shape"),
    (lambda: SetMean(RBF())([[[1.0], [1.0, 2.0]]]), "Row 0 is no set of vectors"),
    (lambda: SetMean(RBF())([3.0]), "Row 0 is no set of vectors"),
    (lambda: SetMean(RBF())(["ab"]), "Row 0 is no set of vectors"),
    (lambda: SetMean(RBF())([[[1.0]], [[1.0, 2.0]]]), r"lengths \[1, 2\]. Pass vectors of the same length"),
    (lambda: SetMean(RBF())([[[1.0]]], [[[1.0, 2.0]]]), "length 1, those they are compared with of length 2"),
    (lambda: SetMean(RBF())([[[1.0]], [[np.nan]]]), "Row 1 has NaN or infinite entries"),
    (lambda: Overlap(kind="some")(ROWS), "kind='some' is unknown. Pass one of 'exponential', 'fraction'"),
    (lambda: Overlap([1.0, 2.0, 3.0])(ROWS), r"length_scale=\[1.0, 2.0, 3.0\] does not suit 2 columns"),
    (lambda: Overlap(0.0)(ROWS), "length_scale=0.0 does not suit 2 columns. Pass one positive finite number"),
    (lambda: Overlap(np.inf)(ROWS), "length_scale=inf does not suit"),
    (lambda: Overlap([[1.0]])(ROWS), "does not suit 2 columns"),
    (lambda: Overlap()(np.zeros(3)), r"rows of categories, got X of shape \(3,\)"),
    (lambda: Overlap()(np.zeros((3, 0))), r"rows of categories, got X of shape \(3, 0\)"),
    (lambda: Overlap()(ROWS, np.zeros((3, 4))), "X has 2 columns, what it is compared with has 4"),
    (lambda: Overlap()(np.array([[np.nan]])), "NaN among its categories.*'missing'"),
    (lambda: Overlap()([["a"], [float("nan")]]), "NaN among its categories"),
    (
        lambda: Overlap()(object_rows([[1], [2]])[:, None]),
        "Column 0 has entries that are no categories.*hashable",
    ),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input_is_refused_with_advice(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("kernel", "X"),
    [
        (Exponential(ConstantKernel(800.0)), ROWS),
        (Polynomial(DotProduct(), [1.0, 0.0, 0.0, 1.0]), ROWS + 1e60),
        (SetKernel(base=2.0), [set(range(1100))]),
    ],
    ids=str,
)
def test_values_beyond_float64_are_refused_by_name(kernel, X):
    for use in (kernel, kernel.diag, lambda X: kernel(X, eval_gradient=True), lambda X: evaluate(kernel, X)):
        with pytest.raises(KernelOverflowError, match=r"beyond 1.8e\+308.*narrow the bounds") as caught:
            use(X)
    assert isinstance(caught.value, IndefiniteKernelError)  # which learning keeps away from
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


# --- whole models


@pytest.fixture
def baskets(rng):
    """Return sets of seven things, with a value for each thing and for three of their pairs."""
    things = list("abcdefg")
    value = dict(zip(things, rng.normal(size=7), strict=True))
    X = [set(rng.choice(things, rng.integers(1, 6), replace=False).tolist()) for _ in range(90)]
    pairs = [{"a", "b"}, {"c", "d"}, {"b", "e"}]
    y = [sum(value[thing] for thing in A) + 2.0 * sum(pair <= A for pair in pairs) for A in X]
    return X, np.array(y) + rng.normal(0, 0.1, 90)


def test_set_kernels_in_a_process_with_a_learned_base(baskets):
    X, y = baskets
    single, subsets = (
        SpectralGPRegressor(kernel).fit(X[:60], y[:60]) for kernel in (SetKernel("intersection"), SetKernel())
    )
    assert subsets.log_marginal_likelihood_value_ > single.log_marginal_likelihood_value_ + 20
    assert subsets.score(X[60:], y[60:]) > 0.9
    theta = subsets.kernel_.theta
    assert abs(subsets.log_marginal_likelihood(theta, eval_gradient=True)[1]) < 1e-3  # the base is optimal
    value = subsets.log_marginal_likelihood
    slope = value(theta + 0.2, eval_gradient=True)[1]
    assert np.allclose(slope, (value(theta + 0.2 + 1e-5) - value(theta + 0.2 - 1e-5)) / 2e-5, rtol=1e-4)
    std = subsets.predict(X[60:], return_std=True)[1]
    assert std.shape == (30,)
    again = pickle.loads(pickle.dumps(subsets))
    assert np.array_equal(again.predict(X[60:]), subsets.predict(X[60:]))


def test_set_kernels_agree_with_scikit_learns_process(baskets):
    X, y = baskets
    kernel = ConstantKernel(2.0) * Normalized(SetKernel(base=1.5)) + WhiteKernel(0.02)
    theirs = GaussianProcessRegressor(kernel).fit(X, y)
    ours = SpectralGPRegressor(kernel, fit_intercept=False).fit(X, y)
    assert theirs.kernel_.k1.k2.kernel.base != 1.5
    assert np.isclose(ours.log_marginal_likelihood_value_, theirs.log_marginal_likelihood_value_, atol=1e-3)
    assert np.isclose(ours.kernel_.kernel.base, theirs.kernel_.k1.k2.kernel.base, rtol=1e-2)
    for one, other in zip(
        ours.predict(X[:5], return_std=True), theirs.predict(X[:5], return_std=True), strict=True
    ):
        assert np.allclose(one, other, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("method", ["exact", "low_rank"])
@pytest.mark.parametrize(
    ("kernel", "kind"),
    [(Normalized(SetKernel()), "sets"), (SetMean(RBF()), "bags"), (Overlap(), "categories")],
    ids=str,
)
def test_a_process_on_objects_predicts_what_it_has_seen(kernel, kind, method, rng):
    X = make_inputs(kind, 60, rng)
    K = kernel(X)
    y = np.linalg.cholesky(K + 1e-8 * np.eye(60)) @ rng.normal(size=60) + rng.normal(0, 0.05, 60)
    gp = SpectralGPRegressor(kernel, method=method, optimizer=None).fit(X, y)
    assert gp.score(X, y) > 0.9
    lower, upper = gp.predict_interval(X)
    assert np.mean((lower < y) & (y < upper)) > 0.9


@pytest.mark.filterwarnings("ignore::skspectral.NoiseResolutionWarning")  # targets without noise
def test_searches_over_kernels_on_sets_share_decompositions(baskets, monkeypatch):
    X, y = baskets
    calls = []

    def counted(*args, **kwargs):
        calls.append(args)
        return original(*args, **kwargs)

    original = process_fitting.decompose
    monkeypatch.setattr(process_fitting, "decompose", counted)
    grid = {"kernel__base": [1.1, 1.5, 2.0], "criterion": ["evidence", "loo"]}
    model = SpectralGPRegressor(SetKernel(), optimizer=None)
    search = KernelSearchCV(model, grid, cv=2, refit=False).fit(X, y)
    assert len(calls) == 3 * 2  # kernels times splits
    assert search.best_params_["kernel__base"] < 2.0
    ranked = KernelSearchCV(model, {"kernel": [SetKernel("intersection"), SetKernel(base=1.2)]}).fit(X, y)
    assert ranked.best_params_ == {"kernel": SetKernel(base=1.2)}
    assert ranked.predict(X[:2]).shape == (2,)


def additive_data(rng):
    X = rng.uniform(-3, 3, (150, 3))
    return X, np.sin(3 * X[:, 0]) + 0.1 * X[:, 1] ** 3 + rng.normal(0, 0.1, 150)


@pytest.mark.filterwarnings("ignore::skspectral.KernelBoundWarning")  # the third input does not matter
def test_additive_models_learn_a_length_for_every_column(rng):
    X, y = additive_data(rng)
    kernel = Columns(RBF(1.0), [0]) + ConstantKernel(1.0) * Columns(RBF(1.0), [1])
    gp = SpectralGPRegressor(kernel).fit(X[:100], y[:100])
    first, second = gp.kernel_.k1, gp.kernel_.k2.k2
    assert 0.4 < first.kernel.length_scale < 1.2 < second.kernel.length_scale
    assert gp.score(X[100:], y[100:]) > 0.97
    assert gp.score(X[100:], y[100:]) > SpectralGPRegressor(RBF([1.0] * 3)).fit(X[:100], y[:100]).score(
        X[100:], y[100:]
    )
    other_columns = X[:, [0, 1, 0]]
    assert np.array_equal(gp.predict(other_columns), gp.predict(X))  # the third is not looked at
    with pytest.raises(ValueError, match=r"2 features, but .* expecting 3"):
        gp.predict(X[:, :2])
    theta = gp.kernel_.theta + 0.1
    slope = gp.log_marginal_likelihood(theta, eval_gradient=True)[1]
    expected = differences(
        gp.kernel_.clone_with_theta(theta), lambda k: gp.log_marginal_likelihood(k.theta), h=1e-3
    )
    # differences of evidences of matrices that are conditioned as 1e7
    assert np.allclose(slope, expected, rtol=1e-4, atol=1e-4)


def test_additive_models_are_learned_as_scikit_learn_learns_them(rng):
    X, y = additive_data(rng)
    kernel = ConstantKernel(1.0) * Columns(RBF(1.0), [0]) + ConstantKernel(1.0) * Columns(RBF(2.0), [1])
    theirs = GaussianProcessRegressor(kernel + WhiteKernel(0.1)).fit(X, y)
    ours = SpectralGPRegressor(kernel, fit_intercept=False).fit(X, y)
    assert ours.log_marginal_likelihood_value_ > theirs.log_marginal_likelihood_value_ - 1e-3
    assert np.allclose(ours.predict(X), theirs.predict(X), atol=0.05)


def test_mixed_tables_with_names_of_categories(rng):
    X, y = additive_data(rng)
    frame = pd.DataFrame(X, columns=["depth", "east", "north"])
    frame["rock"] = rng.choice(["lime", "sand", "clay"], 150)
    y = y + frame["rock"].map({"lime": 0.0, "sand": 2.0, "clay": -1.0}).to_numpy()
    named = Columns(RBF(1.0), ["depth", "east"], mixed=True) + ConstantKernel(1.0) * Columns(
        Overlap(), "rock"
    )
    kernel = resolve_columns(named, frame.columns)
    gp = SpectralGPRegressor(kernel).fit(frame[:100], y[:100])
    assert gp.score(frame[100:], y[100:]) > 0.95
    assert GaussianProcessRegressor(kernel + WhiteKernel()).fit(frame, y).score(frame, y) > 0.95
    by_name = SpectralGPRegressor(named).fit(frame[:100], y[:100])
    assert np.array_equal(by_name.predict(frame), gp.predict(frame))
    with pytest.raises(ValueError, match="'depth' is a name, but X is an array"):
        SpectralGPRegressor(named).fit(frame.to_numpy(), y)
    with pytest.raises(ValueError, match=r"not numbers.*clay"):
        SpectralGPRegressor(Columns(RBF(), [0, 3], mixed=True)).fit(frame, y)


def test_learning_keeps_away_from_parameters_that_overflow(rng):
    X = rng.normal(size=(30, 1))
    y = np.sin(X[:, 0]) + rng.normal(0, 0.1, 30)
    seen = []

    def optimizer(objective, theta, bounds):
        seen.extend([objective(theta + 8.0)[0], objective(theta)[0]])
        return theta, seen[1]

    kernel = Exponential(ConstantKernel(1.0, (1e-3, 1e6)) * RBF(1.0, "fixed"))
    gp = SpectralGPRegressor(kernel, optimizer=optimizer).fit(X, y)
    assert seen[0] == np.inf
    assert np.isfinite(seen[1])
    assert gp.score(X, y) > 0.8


def test_a_process_finds_columns_by_the_names_of_a_table(rng):
    X, y = additive_data(rng)
    frame = pd.DataFrame(X, columns=["east", "north", "depth"])
    named = Columns(RBF(1.0), ["east"]) + Columns(RBF(1.0), ["north"])
    placed = Columns(RBF(1.0), [0]) + Columns(RBF(1.0), [1])
    by_name = SpectralGPRegressor(named, optimizer=None).fit(frame, y)
    by_place = SpectralGPRegressor(placed, optimizer=None).fit(X, y)
    assert np.array_equal(by_name.predict(frame), by_place.predict(X))
    assert by_name.kernel is named
    with pytest.raises(ValueError, match="west"):
        SpectralGPRegressor(Columns(RBF(), ["west"])).fit(frame, y)
