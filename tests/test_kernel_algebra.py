"""Kernel values against scikit-learn's, derivatives against its tensor and against differences."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)

from skspectral.kernels import Columns, Normalized
from skspectral.kernels.algebra import contract, evaluate
from skspectral.kernels.attached import _exp, attach
from skspectral.kernels.derivative_products import derivative_products
from skspectral.kernels.pairs import Pairs
from skspectral.kernels.parameters import (
    bounds_of,
    copied,
    free_parameters,
    hyperparameters_of,
    n_dims_of,
    set_theta,
    theta_of,
    with_theta,
)
from skspectral.kernels.parts import parameters_at_bounds

ARD = [0.7, 1.3, 2.9]
KERNELS = [
    RBF(0.8),
    RBF(ARD),
    RBF(ARD, "fixed") * RBF(2.0),
    *(Matern(0.9, nu=nu) for nu in (0.5, 1.5, 2.5, np.inf)),
    *(Matern(ARD, nu=nu) for nu in (0.5, 1.5, 2.5, np.inf)),
    Matern(ARD, nu=0.8),
    RationalQuadratic(1.2, 0.6),
    RationalQuadratic(1.2, 0.6, alpha_bounds="fixed"),
    DotProduct(0.7),
    ExpSineSquared(1.4, 3.1),
    ConstantKernel(2.0) * RBF(ARD),
    RBF(1.0) * ConstantKernel(2.0, "fixed"),
    ConstantKernel(0.5) * RBF(1.0) + ConstantKernel(2.0) * ExpSineSquared(1.0, 4.0) + WhiteKernel(0.3),
    Matern(ARD, nu=1.5) * DotProduct(1.0) + RationalQuadratic(2.0, 1.0),
    (RBF(1.0) + DotProduct(0.5)) ** 2,
    PairwiseKernel(gamma=0.5, metric="laplacian") * RBF(1.0),
]


@pytest.fixture
def inputs(rng):
    X = rng.normal(size=(17, 3))
    X[5] = X[4]  # a repeated row: distances of exactly 0 off the diagonal
    return X + 10.0, rng.normal(size=(6, 3)) + 10.0


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_values_are_scikit_learns(kernel, inputs):
    X, Z = inputs
    assert np.allclose(evaluate(kernel, X), kernel(X), rtol=1e-12, atol=1e-12)
    assert np.allclose(evaluate(kernel, X, Z), kernel(X, Z), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_contraction_equals_the_tensor(kernel, inputs, rng):
    X, _ = inputs
    G = rng.normal(size=(len(X), len(X)))
    G += G.T
    expected = np.einsum("ij,ijp->p", G, kernel(X, eval_gradient=True)[1])
    assert np.allclose(contract(kernel, G, X), expected, rtol=1e-8, atol=1e-8)


def _is_made_of_two_inputs(kernel):
    return not any(word in str(kernel) for word in ("White", "Pairwise", "nu=0.8"))


@pytest.mark.parametrize("slab", [5, 1024])
@pytest.mark.parametrize("kernel", filter(_is_made_of_two_inputs, KERNELS), ids=str)
def test_products_of_derivatives_with_a_vector_equal_those_of_the_tensor(
    kernel, slab, inputs, rng, monkeypatch
):
    monkeypatch.setattr("skspectral.kernels.derivative_products._SLAB", slab)
    X, _ = inputs
    v = rng.normal(size=len(X))
    expected = np.einsum("ijp,j->ip", kernel(X, eval_gradient=True)[1], v)
    assert np.allclose(derivative_products(kernel, X, v), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kernel", [k for k in KERNELS if not _is_made_of_two_inputs(k)], ids=str)
def test_kernels_without_a_rule_have_no_products_of_derivatives(kernel, inputs):
    assert derivative_products(kernel, inputs[0], np.ones(17)) is None


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_contraction_between_two_sets_equals_differences(kernel, inputs, rng):
    X, Z = inputs
    G = rng.normal(size=(len(X), len(Z)))
    h, expected = 1e-5, []
    for step in h * np.eye(kernel.n_dims):
        ahead, behind = (kernel.clone_with_theta(kernel.theta + s * step)(X, Z) for s in (1, -1))
        expected.append(np.sum(G * (ahead - behind)) / (2 * h))
    assert np.allclose(contract(kernel, G, X, Z), expected, rtol=1e-6, atol=1e-7)


def test_a_kernel_without_free_parameters_has_an_empty_gradient(inputs):
    X, _ = inputs
    assert contract(RBF(1.0, "fixed"), np.eye(len(X)), X).shape == (0,)


@pytest.mark.parametrize("span", [1.0, 1e6, 3e8])
@pytest.mark.parametrize("kernel", [RBF(1.0), Matern(1.0, nu=2.5), RationalQuadratic(1.0, 1.0)], ids=str)
def test_derivatives_survive_inputs_that_span_many_length_scales(kernel, span, rng):
    bursts = np.linspace(0, span, 8)[:, None]
    X = (bursts + rng.uniform(0, 2, (8, 5))).reshape(-1, 1)
    G = rng.normal(size=(40, 40))
    G = G + G.T
    tensor = kernel(X, eval_gradient=True)[1]
    assert np.allclose(contract(kernel, G, X), np.einsum("ij,ijk->k", G, tensor), rtol=1e-6)


@pytest.mark.parametrize("kernel", [*KERNELS, ConstantKernel(1.5), RBF(0.8) ** 3], ids=str)
def test_an_attached_kernel_is_the_kernel_at_every_theta(kernel, inputs, rng):
    """Started at one theta, asked at another; of weights the upper triangle is given."""
    X, _ = inputs
    theta = kernel.theta + rng.normal(0.0, 0.3, kernel.n_dims)
    there, G = kernel.clone_with_theta(theta), rng.normal(size=(len(X), len(X)))
    values = attach(kernel, X).at(theta)
    assert np.allclose(values.K.matrix(len(X)), there(X), rtol=1e-12, atol=1e-12)
    symmetric = np.triu(G) + np.triu(G, 1).T
    expected = np.einsum("ij,ijp->p", symmetric, there(X, eval_gradient=True)[1])
    assert np.allclose(values.contract(Pairs.of_triangle(np.triu(G))), expected, rtol=1e-8, atol=1e-8)
    assert np.allclose(values.K.matrix(len(X)), there(X), rtol=1e-12, atol=1e-12)  # it is left alone


@pytest.mark.parametrize("alpha", [0.3, 9.0, 11.0, 1e5])
def test_an_attached_rational_quadratic_kernel_at_any_alpha(alpha, inputs, rng):
    X, _ = inputs
    kernel, G = RationalQuadratic(0.8, alpha), np.triu(rng.normal(size=(17, 17)))
    values = attach(kernel, X).at(kernel.theta)
    D = 0.5 * cdist(X, X, "sqeuclidean") / 0.8**2
    power = np.exp(-alpha * np.log1p(D / alpha))
    assert np.allclose(values.K.matrix(17), power, rtol=1e-13, atol=1e-15)
    GK, share = (G + np.triu(G, 1).T) * power, D / (1.0 + D / alpha)
    expected = np.sum(GK * (share - alpha * np.log1p(D / alpha))), 2.0 * np.sum(GK * share)
    assert np.allclose(values.contract(Pairs.of_triangle(G)), expected, rtol=1e-10, atol=1e-12)


def test_exponentials_that_vanish_are_exactly_those_of_numpy():
    """Also where they are less than numbers of full length: a path of learning may turn by their signs."""
    exponents = np.array([0.0, -1.0, -707.0, -720.0, -745.1, -745.15, -745.3, -1e5, -np.inf])
    with np.errstate(under="ignore"):
        expected = np.exp(exponents)
    assert np.array_equal(_exp(exponents.copy()), expected)
    assert np.array_equal(_exp(exponents[:3].copy()), expected[:3])


@pytest.mark.parametrize("lengths", [1.0, [1.0, 2.0, 0.5]], ids=["one length", "three"])
@pytest.mark.parametrize("size", [1e-150, 1.0, 1e150])
def test_an_attached_kernel_takes_inputs_of_any_size(lengths, size, inputs, rng):
    X, _ = inputs
    wide, G = (1e-200, 1e200), Pairs.of_triangle(np.triu(rng.normal(size=(17, 17))))
    kernel = RBF(lengths, wide) + RationalQuadratic(2.0, 0.7, wide, "fixed")
    moved = kernel.clone_with_theta(kernel.theta + np.log(size))
    here, there = attach(kernel, X).at(kernel.theta), attach(moved, X * size).at(moved.theta)
    assert np.allclose(here.K.off, there.K.off, rtol=1e-10)
    assert np.allclose(here.contract(G), there.contract(G), rtol=1e-8)


@pytest.mark.parametrize("span", [1.0, 1e6])
def test_an_attached_kernel_survives_inputs_that_span_many_length_scales(span, rng):
    X = np.concatenate([rng.normal(size=(8, 2)), span + rng.normal(size=(8, 2))])
    kernel, G = RBF([1.0, 0.7]), np.triu(rng.normal(size=(16, 16)))
    slopes = attach(kernel, X).at(kernel.theta).contract(Pairs.of_triangle(G))
    symmetric = G + np.triu(G, 1).T
    expected = np.einsum("ij,ijp->p", symmetric, kernel(X, eval_gradient=True)[1])
    assert np.allclose(slopes, expected, rtol=1e-9, atol=1e-12)


def test_an_attached_kernel_refuses_a_wrong_number_of_length_scales(inputs):
    kernel = RBF([1.0, 2.0])
    with pytest.raises(ValueError, match="length_scale has 2 entries but the kernel sees 3 columns"):
        attach(kernel, inputs[0]).at(kernel.theta)


def test_pairs_of_a_view_are_those_of_its_entries(rng):
    G = rng.normal(size=(7, 7))
    expected = 2.0 * G[np.triu_indices(7, 1)]
    larger = np.zeros((9, 9))
    larger[:7, :7] = G
    for view in (G, G.T.T, larger[:7, :7], np.array(G.T).T, np.vstack([G, G])[:7]):
        pairs = Pairs.of_triangle(view)
        assert np.array_equal(pairs.off, expected)
        assert np.array_equal(pairs.diagonal, G.diagonal())


def test_pairs_of_a_transpose_of_a_transpose_are_read_without_a_copy(monkeypatch, rng):
    seen = []
    monkeypatch.setattr("skspectral.kernels.pairs.squareform", lambda G, checks: seen.append(G) or G[0, 1:])
    G = rng.normal(size=(3, 3))
    Pairs.of_triangle(G.T.T)
    assert seen[0] is G


@pytest.mark.parametrize("kernel", [RBF(1e-10), RationalQuadratic(1e-10, 1.0)], ids=str)
def test_distances_whose_squares_are_beyond_all_numbers_are_far(kernel):
    X = 1e150 * np.array([[0.0], [0.0], [1.0]])  # two rows are the same
    K = attach(kernel, X).at(kernel.theta).K.matrix(3)
    expected = np.eye(3)
    expected[0, 1] = expected[1, 0] = 1.0
    assert np.allclose(K, expected, atol=1e-100)


@pytest.mark.parametrize(
    "kernel",
    [
        ConstantKernel(2.0) * RBF([1.0, 3.0]) + WhiteKernel(0.1),
        RBF([1.0, 3.0, 2.0]),
        Matern(2.0, "fixed", nu=1.5) + ConstantKernel(3.0) * RationalQuadratic(1.0, 2.0),
        RBF(2.0) ** 2.0,
        Columns(RBF(2.0), [0]) + DotProduct(1.0),
        Normalized(DotProduct(0.5)),
    ],
    ids=str,
)
def test_a_kernel_with_other_parameters_is_a_clone_with_them(kernel):
    theta = kernel.theta + np.linspace(0.3, 1.0, kernel.n_dims)
    before = str(kernel)
    moved = with_theta(kernel, theta)
    assert moved == kernel.clone_with_theta(theta)
    assert moved.theta == pytest.approx(theta)
    assert str(kernel) == before  # nothing of it is shared that was set
    assert with_theta(moved, kernel.theta).theta == pytest.approx(kernel.theta)
    assert_same_parameters(kernel)
    assert_same_parameters(moved)


def test_a_parameter_that_is_a_number_stays_one():
    assert np.ndim(with_theta(RBF(2.0), np.log([3.0])).length_scale) == 0


FIRST, SECOND = ("k2__length_scale[0]", "lower"), ("k2__length_scale[1]", "upper")


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([1.0, 10.0, 3.0], [FIRST, SECOND]),
        ([np.exp(0.9e-6), 10.0 * np.exp(-0.9e-6), 2.0], [FIRST, SECOND]),
        ([np.exp(1.1e-6), 10.0 * np.exp(-1.1e-6), 0.1], []),
    ],
)
def test_parameters_at_a_bound_are_told_by_name_and_end(lengths, expected):
    assert parameters_at_bounds(ConstantKernel(3.0) * RBF(lengths, (1.0, 10.0))) == expected
    fixed = ConstantKernel(3.0, "fixed") * RBF(lengths[0], "fixed")
    assert parameters_at_bounds(fixed) == []
    assert parameters_at_bounds(ConstantKernel(3.0, (3.0, 9.0)) * fixed) == [("k1__constant_value", "lower")]
    assert parameters_at_bounds(ConstantKernel(3.0, (3.0, 3.0)) * fixed) == [("k1__constant_value", "upper")]


def test_a_copied_kernel_shares_nothing_that_can_be_changed():
    kernel = ConstantKernel(2.0) * RBF(np.array([1.0, 3.0])) + Columns(RBF(2.0), [0])
    own = copied(kernel)
    assert own == kernel
    own.k1.k2.length_scale[0] = 7.0
    own.k1.k1.constant_value = 5.0
    own.k2.kernel.length_scale = 4.0
    assert kernel == ConstantKernel(2.0) * RBF([1.0, 3.0]) + Columns(RBF(2.0), [0])


def assert_same_parameters(kernel):
    assert np.array_equal(theta_of(kernel), kernel.theta)
    assert np.array_equal(bounds_of(kernel), kernel.bounds)
    assert n_dims_of(kernel) == kernel.n_dims
    assert [h.name for h in hyperparameters_of(kernel)] == [h.name for h in kernel.hyperparameters]


@pytest.mark.parametrize(
    "kernel",
    [RBF(1.3), Matern(0.8, nu=0.5), Matern(1.3, nu=2.5), RationalQuadratic(1.3, 0.7, alpha_bounds="fixed")],
    ids=str,
)
def test_distances_that_are_kept_say_what_derivatives_do_to_a_vector(kernel, inputs):
    X = inputs[0]
    v = np.random.default_rng(3).normal(size=len(X))
    theta = kernel.theta + 0.4
    found = attach(kernel, X).at(theta).derivative_products(v)
    assert np.allclose(found, derivative_products(kernel.clone_with_theta(theta), X, v), rtol=1e-10)


@pytest.mark.parametrize(
    "kernel",
    [RationalQuadratic(1.0), RationalQuadratic(1.0, 1.0, length_scale_bounds="fixed"), RBF([1.0, 2.0])],
    ids=str,
)
def test_other_derivatives_are_not_said_by_distances(kernel, inputs):
    X = inputs[0][:, :2]
    assert attach(kernel, X).at(kernel.theta).derivative_products(np.ones(len(X))) is None


def test_a_kernel_without_free_parameters_has_none():
    assert_same_parameters(RBF(1.0, "fixed") * ConstantKernel(2.0, "fixed"))


def test_parameters_of_kernels_inside_are_set_too():
    kernel = RBF(2.0) ** 2.0 + ConstantKernel(3.0)
    set_theta(list(free_parameters(kernel)), np.log([5.0, 7.0]))
    assert np.exp(kernel.theta) == pytest.approx([5.0, 7.0])


def test_kernels_that_treat_theta_in_their_own_way_are_asked():
    class Doubled(RBF):
        @property
        def theta(self):
            return np.array([np.log(2.0 * self.length_scale)])

        @theta.setter
        def theta(self, theta):
            self.length_scale = 0.5 * float(np.exp(theta[0]))

        @property
        def bounds(self):
            return super().bounds + np.log(2.0)

    assert with_theta(Doubled(1.0), np.log([6.0])).length_scale == pytest.approx(3.0)
    assert with_theta(Doubled(1.0) + RBF(1.0), np.log([6.0, 5.0])).k1.length_scale == pytest.approx(3.0)
    assert_same_parameters(Doubled(1.0) + RBF(1.0))

    class Tied(RBF):
        @property
        def theta(self):
            return np.log(self.length_scale[:1])

    assert n_dims_of(Tied([2.0, 2.0])) == 1
