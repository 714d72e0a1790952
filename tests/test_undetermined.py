"""Nothing known, nothing claimed: spreads of too few rows and of targets that do not vary."""

import numpy as np
import pytest
from problems import smooth
from scipy.stats import invgamma, norm
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skspectral import SpectralGPRegressor, StreamingSpectralRegressor, UndeterminedVarianceWarning

BOUNDED = ConstantKernel(1.0, (0.1, 4.0)) * RBF(1.0) + WhiteKernel(1.0, (0.1, 9.0))
X_NEW = np.array([[0.3], [50.0]])

both_inferences = pytest.mark.parametrize("inference", ["maximize", "integrate"])
may_be_at_bounds = pytest.mark.filterwarnings("ignore::skspectral.KernelBoundWarning")
may_be_unknown = pytest.mark.filterwarnings("ignore::skspectral.UndeterminedVarianceWarning")


def process(kernel, inference, **parameters):
    return SpectralGPRegressor(kernel, optimizer=None, inference=inference, **parameters)


def line(n):
    return np.arange(float(n))[:, None]


@both_inferences
@pytest.mark.parametrize("y", [[2.0], [2.0, 2.0], [0.0] * 5], ids=["one row", "two equal", "zeros"])
def test_unknown_spreads_are_infinite_and_told(y, inference):
    with pytest.warns(UndeterminedVarianceWarning, match="infinite"):
        gp = process(RBF(1.0), inference).fit(line(len(y)), y)
    mean, std = gp.predict(X_NEW, return_std=True)
    covariance = gp.predict(X_NEW, return_cov=True)[1]
    lower, upper = gp.predict_interval(X_NEW)
    assert gp.tuning_[0].status == "undetermined"
    assert np.allclose(mean, y[0])
    assert (std == np.inf).all()
    assert (np.diag(covariance) == np.inf).all()
    assert not np.isnan(covariance).any()
    assert (lower == -np.inf).all()
    assert (upper == np.inf).all()
    with pytest.raises(ValueError, match="no distribution to draw from"):
        gp.sample_y(X_NEW)


@may_be_unknown
def test_unknown_spreads_of_rows_that_are_left_out():
    _, std = process(RBF(1.0), "maximize").fit(line(4), np.full(4, 3.0)).loo_predict(return_std=True)
    assert (std == np.inf).all()


@may_be_unknown
def test_the_spread_of_another_output_is_known():
    X, y = smooth(0, n=20)
    Y = np.column_stack([y, np.full(20, 4.0)])
    for gp in (
        process(RBF(1.0), "maximize"),
        process(RBF(1.0), "integrate"),
        StreamingSpectralRegressor(RBF(1.0)),
    ):
        std = gp.fit(X, Y).predict(X, return_std=True)[1]
        assert np.isfinite(std[:, 0]).all()
        assert (std[:, 1] == np.inf).all()


def test_a_stream_tells_too():
    with pytest.warns(UndeterminedVarianceWarning):
        StreamingSpectralRegressor(RBF(1.0)).fit(line(3), np.ones(3))


@may_be_at_bounds
@both_inferences
def test_one_row_within_bounds_has_the_largest_spread_that_they_allow(inference):
    gp = process(BOUNDED, inference).fit([[0.0]], [2.0])
    assert (gp.noise_variance_, gp.signal_variance_) == (9.0, 4.0)
    far = gp.predict(X_NEW[1:], return_std=True)[1]
    # of a new observation, and of the mean that a single observation tells
    assert far == pytest.approx(np.sqrt(2 * (9.0 + 4.0)))


@may_be_at_bounds
@both_inferences
def test_constant_targets_within_bounds_have_the_smallest_variances_that_they_allow(inference):
    gp = process(BOUNDED, inference).fit(line(5), np.full(5, 2.0))
    assert (gp.noise_variance_, gp.signal_variance_) == pytest.approx((0.1, 0.1))
    assert np.isfinite(gp.predict(X_NEW, return_std=True)[1]).all()


def test_priors_stand_in_for_the_data():
    priors = {"noise_variance": invgamma(3, scale=2), "signal_variance": invgamma(3, scale=5)}
    gp = process(RBF(1.0), "maximize", priors=priors).fit([[0.0]], [2.0])
    medians = [prior.median() for prior in priors.values()]
    assert [gp.noise_variance_, gp.signal_variance_] == pytest.approx(medians)
    assert np.isfinite(gp.predict(X_NEW, return_std=True)[1]).all()


@pytest.mark.parametrize("n", [2, 3])
def test_averages_over_few_rows_tell_that_only_their_intervals_are_finite(n):
    X, y = smooth(0, n=n, p=1)
    with pytest.warns(UndeterminedVarianceWarning, match=rf"{n - 1} row\(s\) more than mean functions"):
        gp = process(RBF(1.0), "integrate").fit(X, y)
    assert (gp.predict(X_NEW, return_std=True)[1] == np.inf).all()
    assert np.isfinite(gp.predict_interval(X_NEW)).all()


@may_be_unknown
@may_be_at_bounds
@pytest.mark.filterwarnings("ignore::skspectral.NoiseResolutionWarning")
@both_inferences
@pytest.mark.parametrize("kernel", [RBF(1.0), BOUNDED], ids=["free", "bounded"])
@pytest.mark.parametrize("start", [[0.0, 1.0], [-1.5, 2.5]], ids=["equal values", "others"])
def test_expected_improvement_from_two_points_is_never_nan(inference, kernel, start):
    """A loop as users write it; equal values at the start leave the scale of y unknown."""
    grid = np.linspace(-3, 4, 41)

    def target(x):
        return x * (1.0 - x)

    x = np.array(start)
    for _ in range(6):
        gp = process(kernel, inference).fit(x[:, None], target(x))
        mean, std = gp.predict(grid[:, None], return_std=True, include_noise=False)
        with np.errstate(divide="ignore"):
            z = (mean - target(x).max()) / np.maximum(std, 1e-12)
        improvement = std * (z * norm.cdf(z) + norm.pdf(z)) if np.isfinite(std).all() else std
        assert not np.isnan(z).any()
        assert not np.isnan(improvement).any()
        x = np.append(x, grid[np.argmax(improvement)])


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.ones(1), r"without row 0 the other 0 row\(s\)"),
        (
            10.0 ** np.array([0.0, 20.0, 0.0, 0.0]),
            r"without row 1 the other 3 row\(s\).*weights of like size",
        ),
    ],
    ids=["a single row", "a heavy row"],
)
@may_be_unknown
def test_the_row_that_leave_one_out_cannot_do_without_is_named(weight, message):
    gp = process(RBF(1.0), "maximize").fit(line(len(weight)), np.arange(len(weight)) ** 2.0, weight)
    with pytest.raises(ValueError, match=message):
        gp.loo_predict()


@may_be_unknown
@may_be_at_bounds
def test_a_bound_of_one_variance_alone_determines_nothing():
    gp = process(RBF(1.0) + WhiteKernel(1.0, (0.1, 4.0)), "maximize").fit(line(1), [2.0])
    assert gp.signal_variance_ == 0.0  # as small as it may be, not as large
    assert np.isinf(gp.predict(X_NEW, return_std=True)[1]).all()
