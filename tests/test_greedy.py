"""Sparse greedy selection: bounds on the ridge problem, and what the targets do to the choice."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems import smooth
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skspectral import SpectralKernelRidge
from skspectral.kernels.gram import make_gram
from skspectral.linalg import factors
from skspectral.linalg.greedy import SparseGreedy, greedy_landmarks


def ridge_minimum(K, Y, g):
    """min L = -1/2 y'K(K+gI)^-1 y (eq. 82), summed over outputs."""
    return -0.5 * float((Y * (K @ np.linalg.solve(K + g * np.eye(len(K)), Y))).sum())


@given(
    seed=st.integers(0, 1000),
    n=st.integers(2, 40),
    m=st.integers(1, 2),
    log_g=st.floats(-7, 3),
    candidates=st.sampled_from([1, 5, 59]),
)
def test_the_gap_brackets_the_exact_minimum(seed, n, m, log_g, candidates):
    X, Y = smooth(seed, n=n, m=m)
    gram, g = make_gram(RBF(1.0)), np.exp(log_g)
    exact = ridge_minimum(gram.square(X), Y, g)
    search = SparseGreedy(gram, X, Y, g, candidates=candidates, random_state=seed)
    slack = 1e-9 * float((Y**2).sum())
    uppers, lowers = [search.upper], [search.lower]
    while search.step(dual=True):
        if len(search.chosen) % 3 == 0:
            search.tighten()
        uppers.append(search.upper)
        lowers.append(search.lower)
    assert min(uppers) >= exact - slack
    assert max(lowers) <= exact + slack
    assert np.all(np.diff(uppers) <= 0)  # more basis functions never raise the bound
    assert np.all(np.diff(lowers) >= 0)
    if len(search.chosen_dual) == n:
        assert lowers[-1] == pytest.approx(exact, abs=1e-6 * float((Y**2).sum()))


@pytest.mark.parametrize("unit", [1e-200, 1e200])
@pytest.mark.parametrize("weighted", [False, True])
def test_bounds_do_not_depend_on_the_unit_of_the_kernel(unit, weighted):
    X, y = smooth(20, n=30)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 30) if weighted else None
    searches = [
        SparseGreedy(make_gram(ConstantKernel(size) * RBF(1.0)), X, y, 0.1 * size, weight=weight)
        for size in (1.0, unit)
    ]
    for search in searches:
        for _ in range(6):
            assert search.step(dual=True)
        search.tighten()
    one, other = searches
    assert (other.chosen, other.chosen_dual) == (one.chosen, one.chosen_dual)
    assert (other.upper, other.lower) == pytest.approx((one.upper, one.lower), rel=1e-9)
    root = np.ones(30) if weight is None else np.sqrt(weight)
    K, z = root[:, None] * RBF(1.0)(X) * root, root * y
    C = K[:, one.chosen]
    f = C @ np.linalg.solve(0.1 * C[one.chosen] + C.T @ C, C.T @ z)
    a = (z - f) / 0.1
    dense = -0.5 * z @ z - 0.1 * (-z @ a + 0.5 * a @ (0.1 * a + K @ a))
    assert [one.dense_lower, other.dense_lower] == pytest.approx([dense, dense], rel=1e-9)


def test_what_a_step_attains_is_the_minimum_on_its_support():
    X, y = smooth(21, n=60)
    gram, g = make_gram(RBF(1.0)), 0.1
    search = SparseGreedy(gram, X, y, g)
    for _ in range(12):
        search.step(dual=True)
    K, chosen, dual = gram.square(X), search.chosen, search.chosen_dual
    C = K[:, chosen]
    attained = -0.5 * (C.T @ y) @ np.linalg.solve(g * C[chosen] + C.T @ C, C.T @ y)
    assert search.upper == pytest.approx(attained, rel=1e-8)
    inner = K[np.ix_(dual, dual)] + g * np.eye(len(dual))
    assert search.lower == pytest.approx(-0.5 * y @ y + 0.5 * g * y[dual] @ np.linalg.solve(inner, y[dual]))


def test_the_greedy_factor_stops_at_the_gap():
    X, y = smooth(22, n=400, noise=0.02)
    gram = make_gram(RBF(1.0))
    loose, tight = (greedy_landmarks(gram, X, y, 1e-2, gap=gap) for gap in (0.3, 0.05))
    assert loose.rank < tight.rank < 200
    capped = greedy_landmarks(gram, X, y, 1e-2, gap=0.0, max_rank=7)
    assert capped.rank == 7
    E = gram.square(X) - capped.Phi @ capped.Phi.T
    assert capped.tau == pytest.approx(np.trace(E))
    assert np.array_equal(capped.landmarks, X[capped.pivots])


def test_residuals_at_all_rows_close_the_gap_of_noisy_targets():
    X, y = smooth(25, n=400, noise=1.0)
    gram = make_gram(RBF(1.0))
    sparse, dense = (
        greedy_landmarks(gram, X, y - y.mean(), 0.5, gap=0.01, max_rank=150, dense_dual=dual)
        for dual in (False, True)
    )
    assert sparse.rank > 140
    assert dense.rank < 60


def test_targets_guide_the_greedy_choice():
    rng = np.random.default_rng(0)
    X = rng.uniform(-10, 10, (600, 1))
    y = np.where(X[:, 0] > 5, np.sin(3 * X[:, 0]), 0.0)
    gram = make_gram(RBF(0.5))
    greedy = greedy_landmarks(gram, X, y, 0.1, max_rank=10)
    pivots = factors.pivoted_cholesky(gram, X, rank=10)
    assert (X[greedy.pivots] > 4).mean() > 0.9
    assert (X[pivots.pivots] > 4).mean() < 0.6


def test_the_greedy_choice_is_reproducible():
    X, y = smooth(23, n=300)
    gram = make_gram(RBF(1.0))
    picks = [greedy_landmarks(gram, X, y, 0.1, gap=0, max_rank=10, random_state=s).pivots for s in (0, 0, 1)]
    assert np.array_equal(picks[0], picks[1])
    assert not np.array_equal(picks[0], picks[2])


def test_a_bad_rank_of_the_greedy_choice_is_refused():
    X, y = smooth(24, n=20)
    for rank in (0, 21):
        with pytest.raises(ValueError, match=f"between 1 and the number of rows, 20; got {rank}"):
            greedy_landmarks(make_gram(RBF(1.0)), X, y, 0.1, max_rank=rank)


@pytest.mark.parametrize("dense_dual", [False, True])
def test_weights_count_rows_in_the_greedy_choice(dense_dual):
    X, y = smooth(26, n=25)
    counts = np.random.default_rng(0).integers(0, 3, 25)
    gram, settings = make_gram(RBF(1.0)), {"gap": 0.0, "max_rank": 6, "dense_dual": dense_dual}
    weighted = greedy_landmarks(gram, X, y, 0.1, weight=counts.astype(float), **settings)
    repeated = greedy_landmarks(gram, X.repeat(counts, axis=0), y.repeat(counts), 0.1, **settings)
    assert np.allclose(weighted.landmarks, repeated.landmarks)
    assert weighted.tau == pytest.approx(repeated.tau)
    assert counts[weighted.pivots].all()


@given(seed=st.integers(0, 1000), n=st.integers(2, 30), log_g=st.floats(-5, 2))
def test_the_gap_brackets_the_weighted_minimum(seed, n, log_g):
    X, y = smooth(seed, n=n)
    gram, g, weight = make_gram(RBF(1.0)), np.exp(log_g), np.random.default_rng(seed).uniform(0, 4, n)
    root = np.sqrt(weight)
    exact = ridge_minimum(root[:, None] * gram.square(X) * root, (root * y)[:, None], g)
    search = SparseGreedy(gram, X, y, g, weight=weight)
    slack = 1e-9 * float(weight @ y**2)
    for _ in range(5):
        search.step(dual=True)
        assert search.lower <= exact + slack
        search.tighten()
        assert search.lower - slack <= exact <= search.upper + slack


def test_steps_report_rank_and_gap():
    X, y = smooth(27, n=100)
    told = []
    factor = greedy_landmarks(make_gram(RBF(1.0)), X, y, 0.1, report=lambda **facts: told.append(facts))
    assert [facts["rank"] for facts in told] == list(range(1, factor.rank + 1))
    assert told[-1]["gap"] <= 0.025 < told[-2]["gap"]


def test_a_kernel_beyond_all_numbers_is_refused():
    X = np.linspace(1e99, 2e99, 12)[:, None]
    ridge = SpectralKernelRidge(kernel="polynomial", degree=2, method="low_rank", selection="greedy")
    with pytest.raises(ValueError, match="has NaN or infinite entries"):
        ridge.fit(X, np.arange(12.0))
