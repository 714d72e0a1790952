"""Relations between fits: scale, shift, order and units change nothing that they should not."""

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from problems import close, smooth
from sklearn.gaussian_process.kernels import RBF

from skspectral import SpectralGPRegressor, SpectralKernelRidge
from skspectral.criteria import CRITERIA

# the posterior criterion ends at a bound that it announces by a warning
pytestmark = pytest.mark.filterwarnings("ignore::skspectral.DegenerateCriterionWarning")

seeds = st.integers(0, 10**6)
criteria = st.sampled_from(sorted(CRITERIA))
kernels = st.sampled_from(["rbf", "laplacian", "linear"])
weightings = st.booleans()


def problem(seed, weighted=False, m=2):
    X, Y = smooth(seed, n=25, m=m, noise=0.5)
    weight = np.random.default_rng(seed).uniform(0.2, 1.0, 25) if weighted else None
    return X, Y, weight


def process(**params):
    return SpectralGPRegressor(RBF(1.0), optimizer=None, **params)


@given(
    seeds,
    criteria,
    kernels,
    weightings,
    st.floats(0.01, 100).flatmap(lambda a: st.sampled_from([a, -a])),
    st.floats(-100, 100),
)
def test_predictions_follow_a_linear_change_of_y(seed, criterion, kernel, weighted, a, b):
    X, Y, weight = problem(seed, weighted)
    model = SpectralKernelRidge(kernel=kernel, criterion=criterion)
    base = model.fit(X, Y, weight)
    alpha, prediction, left_out = base.alpha_, base.predict(X), base.loo_predict()
    moved = model.fit(X, a * Y + b, weight)
    # y loses up to four digits to the shift
    assert np.allclose(moved.alpha_, alpha, rtol=1e-7)
    slack = 1e-8 * (np.abs(a * Y).max() + abs(b))
    assert np.allclose(moved.predict(X), a * prediction + b, rtol=0, atol=slack)
    assert np.allclose(moved.loo_predict(), a * left_out + b, rtol=0, atol=slack)


@given(seeds, criteria, weightings, st.floats(0.01, 100))
def test_without_an_intercept_predictions_and_spread_follow_the_scale_of_y(seed, criterion, weighted, a):
    X, Y, weight = problem(seed, weighted)
    model = process(criterion=criterion, fit_intercept=False)
    mean, std = model.fit(X, Y, weight).predict(X, return_std=True)
    scaled_mean, scaled_std = model.fit(X, -a * Y, weight).predict(X, return_std=True)
    assert close(scaled_mean, -a * mean)
    assert close(scaled_std, a * std, rel=1e-7)


@given(seeds, criteria, st.booleans(), st.sampled_from([1e150, 1e-150]))
def test_y_of_extreme_size_is_like_any_other(seed, criterion, fit_intercept, scale):
    X, Y, _ = problem(seed)
    model = SpectralKernelRidge(criterion=criterion, fit_intercept=fit_intercept)
    alpha, prediction = model.fit(X, Y).alpha_, model.predict(X)
    status = [t.status for t in model.tuning_]
    extreme = model.fit(X, Y * scale)
    assert [t.status for t in extreme.tuning_] == status
    assert np.allclose(extreme.alpha_, alpha, rtol=1e-9)
    assert close(extreme.predict(X) / scale, prediction)
    gp = process(criterion=criterion, fit_intercept=fit_intercept)
    mean, std = gp.fit(X, Y).predict(X, return_std=True)
    extreme_mean, extreme_std = gp.fit(X, Y * scale).predict(X, return_std=True)
    assert close(extreme_mean / scale, mean)
    if not CRITERIA[criterion].is_unbounded:  # its variances, 1e-30 of those of y, underflow at 1e-150
        assert close(extreme_std / scale, std)


@given(seeds, criteria, kernels, weightings)
def test_the_order_of_rows_does_not_matter(seed, criterion, kernel, weighted):
    X, Y, weight = problem(seed, weighted)
    order = np.random.default_rng(seed).permutation(len(X))
    model = SpectralKernelRidge(kernel=kernel, criterion=criterion)
    base = model.fit(X, Y, weight)
    alpha, rows = base.alpha_, (base.predict(X), base.loo_predict())
    permuted = model.fit(X[order], Y[order], None if weight is None else weight[order])
    # at the limit of no noise alpha is the rounding level of K, here the same n and scale
    assert np.allclose(permuted.alpha_, alpha, rtol=1e-7)
    assert close(permuted.predict(X), rows[0], rel=1e-7)
    assert close(permuted.loo_predict(), rows[1][order], rel=1e-7)


@given(seeds, criteria, st.permutations(range(4)))
def test_the_order_of_outputs_does_not_matter(seed, criterion, order):
    X, Y, _ = problem(seed, m=4)
    model = process(criterion=criterion)
    mean, std = model.fit(X, Y).predict(X, return_std=True)
    noise = model.noise_variance_
    other_mean, other_std = model.fit(X, Y[:, order]).predict(X, return_std=True)
    assert close(model.noise_variance_, noise[order])
    assert close(other_mean, mean[:, order])
    assert close(other_std, std[:, order])


@given(seeds, criteria, kernels)
def test_the_same_input_gives_the_same_output_bit_by_bit(seed, criterion, kernel):
    X, Y, _ = problem(seed)
    first, second = (SpectralKernelRidge(kernel=kernel, criterion=criterion).fit(X, Y) for _ in range(2))
    assert np.array_equal(first.alpha_, second.alpha_)
    assert np.array_equal(first.predict(X), second.predict(X))


@pytest.mark.slow
@given(seeds, criteria, st.booleans(), st.floats(-8, 8).map(lambda e: 10.0**e))
def test_the_scale_of_the_kernel_goes_into_its_variance(seed, criterion, fit_intercept, c):
    X, Y, _ = problem(seed)
    X_new = smooth(seed + 1, n=5)[0]
    K, K_new = reference.rbf(X), reference.rbf(X_new, X)
    model = SpectralGPRegressor(
        "precomputed", optimizer=None, criterion=criterion, fit_intercept=fit_intercept
    )
    mean, std = model.fit(K, Y).predict(K_new, return_std=True, K_test_diag=np.ones(5))
    noise, signal = model.noise_variance_, model.signal_variance_
    scaled_mean, scaled_std = model.fit(c * K, Y).predict(
        c * K_new, return_std=True, K_test_diag=np.full(5, c)
    )
    assert close(model.noise_variance_, noise, rel=1e-7)
    assert close(c * model.signal_variance_, signal, rel=1e-7)
    assert close(scaled_mean, mean, rel=1e-7)
    assert close(scaled_std, std, rel=1e-7)


@given(seeds, st.sampled_from(["evidence", "gcv", "loo", "loo_lpd"]), st.floats(0.05, 1.0))
def test_with_precisions_up_to_1_only_their_ratios_matter(seed, criterion, c):
    X, Y, weight = problem(seed, weighted=True)
    model = SpectralKernelRidge(criterion=criterion)
    alpha, prediction = model.fit(X, Y, weight).alpha_, model.predict(X)
    lighter = model.fit(X, Y, c * weight)
    assert np.allclose(lighter.alpha_, c * alpha, rtol=1e-7)
    assert close(lighter.predict(X), prediction, rel=1e-7)
