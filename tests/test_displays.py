"""Displays show what the estimators say: artists, labels and numbers, each rendered to a file."""

import builtins
import subprocess
import sys
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest
from scipy.stats import chi2, norm
from sklearn.exceptions import FitFailedWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skspectral import (
    CalibrationDisplay,
    CorrelationDisplay,
    EvidenceDisplay,
    EvidenceSurfaceDisplay,
    KernelSearchCV,
    KernelSearchDisplay,
    PredictionBandDisplay,
    SpectralGPRegressor,
    SpectralKernelRidge,
    SpectrumDisplay,
    load_motorcycle,
)

mpl.use("Agg")
import matplotlib.pyplot as plt


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def motorcycle():
    return load_motorcycle(return_X_y=True)


@pytest.fixture(scope="module")
def gp(motorcycle):
    return SpectralGPRegressor(RBF(5.0), optimizer=None).fit(*motorcycle)


@pytest.fixture(scope="module")
def ridge(motorcycle):
    return SpectralKernelRidge(gamma=0.02).fit(*motorcycle)


@pytest.fixture(scope="module")
def three_outputs():
    rng = np.random.default_rng(0)
    t = np.linspace(0, 10, 80)[:, None]
    Y = np.hstack([np.sin(t), np.cos(t), 0 * t]) + rng.normal(size=(80, 3)) * [0.1, 0.5, 1.0]
    return SpectralGPRegressor(RBF(1.0), optimizer=None).fit(t, Y)


def render(display, path):
    """Save the figure and return its legend; labels and legend must lie on the canvas."""
    file = path / "display.png"
    display.figure_.savefig(file)
    assert file.stat().st_size > 3000
    assert display.ax_.figure is display.figure_
    canvas, legend = display.figure_.bbox, display.ax_.get_legend()
    labels = [label for axes in display.figure_.axes for label in (axes.xaxis.label, axes.yaxis.label)]
    for artist in [legend, *(label for label in labels if label.get_text())]:
        box = artist.get_window_extent()
        assert box.x0 >= -1
        assert box.y0 >= -1
        assert box.x1 <= canvas.x1 + 1
        assert box.y1 <= canvas.y1 + 1
    return [text.get_text() for text in legend.get_texts()]


def assert_tick_labels_apart(display):
    """No two tick labels of the horizontal axis touch."""
    ticks = display.ax_.xaxis.get_major_ticks()
    low, high = sorted(display.ax_.get_xlim())
    boxes = [tick.label1.get_window_extent() for tick in ticks if low <= tick.get_loc() <= high]
    assert len(boxes) >= 2
    assert all(left.x1 < right.x0 for left, right in pairwise(sorted(boxes, key=lambda box: box.x0)))


# --- evidence ------------------------------------------------------------------------------------


def test_evidence_curve_has_its_top_at_the_fit_and_leaves_the_interval_at_the_threshold(gp, tmp_path):
    display = EvidenceDisplay.from_estimator(gp)
    labels = render(display, tmp_path)
    assert labels == ["evidence", "95 % profile interval"]
    curve = display.curves["evidence"][:, 0]
    assert -0.05 < curve.max() <= 0
    assert display.optima["evidence"] == pytest.approx(gp.tuning_[0].noise_ratio)
    low, high = gp.variance_uncertainty()[0].ratio_interval
    at_ends = np.interp(np.log([low, high]), np.log(display.alphas), curve)
    np.testing.assert_allclose(at_ends, -0.5 * chi2(1).ppf(0.95), atol=0.05)
    assert "log evidence less its maximum" in display.ax_.get_ylabel()
    assert display.ax_.get_xscale() == "log"
    assert_tick_labels_apart(display)


def test_evidence_limits_are_those_of_the_model(gp):
    display = EvidenceDisplay.from_estimator(gp)
    y = gp.y_train_
    constant = norm(y.mean(), y.std(ddof=1)).logpdf(y).sum() + 0.5 * np.log(2 * np.pi * y.var(ddof=1))
    limit = display.limits["evidence"][1, 0] + gp.tuning_[0].value  # REML without the constant mean
    assert limit == pytest.approx(constant, rel=1e-6)


def test_evidence_of_ridge_and_process_agree(motorcycle, ridge):
    X, y = motorcycle
    process = SpectralGPRegressor(RBF(5.0), optimizer=None).fit(X, y)  # gamma = 1/(2 l^2) = 0.02
    alphas, names = np.geomspace(1e-4, 1e2, 30), ("evidence", "gcv", "loo", "loo_lpd", "posterior")
    of_ridge = EvidenceDisplay.from_estimator(ridge, criteria=names, alphas=alphas)
    of_process = EvidenceDisplay.from_estimator(process, criteria=names, alphas=alphas)
    for name in names:
        np.testing.assert_allclose(of_ridge.curves[name], of_process.curves[name], atol=1e-4)
        assert of_ridge.optima[name] == pytest.approx(of_process.optima[name], rel=1e-2)


def test_several_criteria_share_one_axis_and_all_top_at_zero(ridge, tmp_path):
    display = EvidenceDisplay.from_estimator(ridge, criteria=("evidence", "gcv", "loo"))
    assert render(display, tmp_path) == ["evidence", "gcv", "loo", "95 % profile interval"]
    for name, curve in display.curves.items():
        assert -0.1 < curve.max() <= 0, name
        tuned = SpectralKernelRidge(gamma=0.02, criterion=name).fit(
            ridge.X_fit_, load_motorcycle(return_X_y=True)[1]
        )
        assert display.optima[name][0] == pytest.approx(tuned.alpha_, rel=2e-2)
    colors = [line.get_color() for line in display.ax_.lines if line.get_label() in display.curves]
    assert len(set(colors)) == 3
    assert ridge.criterion == "evidence"  # the estimator is left as it was


def test_evidence_shows_every_output_or_one(three_outputs, tmp_path):
    display = EvidenceDisplay.from_estimator(three_outputs)
    assert render(display, tmp_path)[:3] == ["output 0", "output 1", "output 2"]
    assert display.curves["evidence"].shape == (400, 3)
    ratios = [t.noise_ratio for t in three_outputs.tuning_]
    np.testing.assert_allclose(display.optima["evidence"], ratios)
    one = EvidenceDisplay.from_estimator(three_outputs, output=1)
    np.testing.assert_allclose(one.curves["evidence"][:, 0], display.curves["evidence"][:, 1])


def test_evidence_marks_the_limit_of_pure_noise(tmp_path):
    X = np.arange(40.0)[:, None]
    model = SpectralGPRegressor(RBF(5.0), optimizer=None).fit(X, (-1.0) ** np.arange(40))
    assert model.tuning_[0].status == "pure_noise"
    display = EvidenceDisplay.from_estimator(model)
    render(display, tmp_path)
    assert display.optima["evidence"][0] == np.inf
    assert display.limits["evidence"][1, 0] == pytest.approx(0.0, abs=1e-9)
    best = [line for line in display.ax_.lines if line.get_marker() == "o"]
    assert best[0].get_xdata()[0] == display.alphas[-1]


def test_evidence_of_a_pipeline_and_a_search_is_that_of_the_model_inside(motorcycle):
    X, y = motorcycle
    pipe = make_pipeline(StandardScaler(), SpectralKernelRidge(gamma=1.0)).fit(X, y)
    search = KernelSearchCV(SpectralKernelRidge(), {"gamma": [0.01, 0.02]}).fit(X, y)
    inside = EvidenceDisplay.from_estimator(pipe[-1]).curves["evidence"]
    np.testing.assert_array_equal(EvidenceDisplay.from_estimator(pipe).curves["evidence"], inside)
    assert EvidenceDisplay.from_estimator(search).optima["evidence"] == search.best_estimator_.alpha_


def test_evidence_refuses_other_models_and_unknown_criteria(motorcycle, gp):
    with pytest.raises(TypeError, match="LinearRegression has none"):
        EvidenceDisplay.from_estimator(LinearRegression().fit(*motorcycle))
    with pytest.raises(ValueError, match="criteria must be among evidence"):
        EvidenceDisplay.from_estimator(gp, criteria="aic")


# --- surface -------------------------------------------------------------------------------------


def test_surface_is_the_log_likelihood_of_scikit_learn(motorcycle, tmp_path):
    X, y = motorcycle
    model = SpectralGPRegressor(RBF(5.0), optimizer=None, fit_intercept=False).fit(X, y)
    display = EvidenceSurfaceDisplay.from_estimator(model, n_grid=12)
    labels = render(display, tmp_path)
    assert labels == ["95 % profile intervals", "fitted"]
    i, j = 3, 8
    kernel = ConstantKernel(display.signal_variance[j]) * RBF(5.0) + WhiteKernel(display.noise_variance[i])
    reference = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(X, y)
    expected = reference.log_marginal_likelihood_value_ - model.log_marginal_likelihood_value_
    assert display.log_evidence[i, j] == pytest.approx(expected, rel=1e-6)


def test_surface_holds_optimum_and_intervals(gp, tmp_path):
    display = EvidenceSurfaceDisplay.from_estimator(gp)
    render(display, tmp_path)
    assert display.optimum == pytest.approx((gp.noise_variance_, gp.signal_variance_))
    assert -0.2 < display.log_evidence.max() <= 0
    for grid, interval in (
        (display.noise_variance, display.noise_interval),
        (display.signal_variance, display.signal_interval),
    ):
        assert grid[0] < interval[0] < interval[1] < grid[-1]
    assert display.ax_.get_xlabel() == "signal variance λ²"
    assert display.ax_.get_ylabel() == "noise variance σ²"
    assert_tick_labels_apart(display)


def test_surface_of_pure_noise_is_drawn(three_outputs, tmp_path):
    X = np.arange(40.0)[:, None]
    model = SpectralGPRegressor(RBF(5.0), optimizer=None).fit(X, (-1.0) ** np.arange(40))
    for display in (
        EvidenceSurfaceDisplay.from_estimator(model),
        EvidenceSurfaceDisplay.from_estimator(three_outputs, output=2),
    ):
        render(display, tmp_path)
        assert np.isfinite(display.log_evidence).all()
        assert_tick_labels_apart(display)


def test_surface_of_a_ridge_is_that_of_the_process(motorcycle, ridge):
    display = EvidenceSurfaceDisplay.from_estimator(ridge)
    assert display.optimum == pytest.approx((ridge.noise_variance_, ridge.signal_variance_))
    process = SpectralGPRegressor(RBF(5.0), optimizer=None).fit(*motorcycle)
    other = EvidenceSurfaceDisplay.from_estimator(process)
    np.testing.assert_allclose(display.log_evidence, other.log_evidence, atol=1e-6)


# --- spectrum ------------------------------------------------------------------------------------


def test_spectrum_shows_signal_noise_energy_and_degrees_of_freedom(gp, motorcycle, tmp_path):
    display = SpectrumDisplay.from_estimator(gp)
    labels = render(display, tmp_path)
    assert any(label.startswith("effective degrees of freedom: 10.2") for label in labels)
    assert any("noise floor" in label for label in labels)
    y = motorcycle[1]
    assert display.energy.sum() == pytest.approx(((y - y.mean()) ** 2).sum())
    assert (np.diff(display.eigenvalues) <= 0).all()
    ridge = SpectralKernelRidge(gamma=0.02).fit(*motorcycle)
    assert display.effective_dof == pytest.approx(ridge.effective_dof_ - 1)
    assert display.ax_.get_yscale() == "log"


def test_spectrum_of_a_ridge_has_energy_only_with_y(ridge, motorcycle, tmp_path):
    without = SpectrumDisplay.from_estimator(ridge)
    assert without.energy is None
    assert not any("targets" in label for label in render(without, tmp_path))
    assert SpectrumDisplay.from_estimator(ridge, y=motorcycle[1]).energy is not None
    with pytest.raises(ValueError, match="fitted on 133 rows"):
        SpectrumDisplay.from_estimator(ridge, y=motorcycle[1][:5])


def test_spectrum_of_a_low_rank_model(motorcycle, tmp_path):
    model = SpectralGPRegressor(RBF(5.0), optimizer=None, method="low_rank", rank=20).fit(*motorcycle)
    display = SpectrumDisplay.from_estimator(model)
    render(display, tmp_path)
    assert len(display.energy) == len(display.eigenvalues) <= 20


# --- prediction band -----------------------------------------------------------------------------


@pytest.mark.parametrize("inference", ["maximize", "integrate"])
def test_band_is_predict_interval(motorcycle, inference, tmp_path):
    X, y = motorcycle
    model = SpectralGPRegressor(RBF(5.0), optimizer=None, inference=inference).fit(X, y)
    display = PredictionBandDisplay.from_estimator(model, coverage=0.9, show_loo=True)
    labels = render(display, tmp_path)
    assert labels == ["90 %, new observations", "90 %, function", "mean", "data", "leave-one-out prediction"]
    grid = display.grid[:, None]
    np.testing.assert_allclose(display.band, model.predict_interval(grid, coverage=0.9))
    latent = model.predict_interval(grid, coverage=0.9, include_noise=False)
    np.testing.assert_allclose(display.function_band, latent)
    np.testing.assert_allclose(display.mean, model.predict(grid))
    np.testing.assert_allclose(display.loo, model.loo_predict())
    np.testing.assert_allclose(display.y, y)


def test_band_of_scikit_learns_process_is_normal(motorcycle, tmp_path):
    X, y = motorcycle
    kernel = ConstantKernel(1.0) * RBF(5.0) + WhiteKernel(0.3)
    model = GaussianProcessRegressor(kernel, optimizer=None, normalize_y=True).fit(X, y)
    display = PredictionBandDisplay.from_estimator(model)
    render(display, tmp_path)
    mean, std = model.predict(display.grid[:, None], return_std=True)
    np.testing.assert_allclose(display.band, [mean - norm.ppf(0.975) * std, mean + norm.ppf(0.975) * std])
    np.testing.assert_allclose(display.y, y, atol=1e-12)
    assert display.function_band is None


def test_band_of_a_ridge_is_its_mean(ridge, motorcycle, tmp_path):
    display = PredictionBandDisplay.from_estimator(ridge, *motorcycle, show_loo=True)
    assert render(display, tmp_path) == ["mean", "data", "leave-one-out prediction"]
    assert display.band is None


def test_band_through_a_pipeline_takes_names_from_data_frames(motorcycle, tmp_path):
    import pandas as pd

    frame = pd.DataFrame({"milliseconds": motorcycle[0][:, 0], "acceleration": motorcycle[1]})
    pipe = make_pipeline(StandardScaler(), SpectralGPRegressor(RBF(0.4), optimizer=None))
    pipe.fit(frame[["milliseconds"]], frame["acceleration"])
    display = PredictionBandDisplay.from_estimator(pipe, frame[["milliseconds"]], frame["acceleration"])
    render(display, tmp_path)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("milliseconds", "acceleration")
    grid = pd.DataFrame({"milliseconds": display.grid})
    np.testing.assert_allclose(display.mean, pipe.predict(grid))
    with pytest.raises(ValueError, match="Pass X"):
        PredictionBandDisplay.from_estimator(pipe)


def test_band_of_one_output_of_several(three_outputs):
    display = PredictionBandDisplay.from_estimator(three_outputs, output=1)
    lower, upper = three_outputs.predict_interval(display.grid[:, None])
    np.testing.assert_allclose(display.band, [lower[:, 1], upper[:, 1]])
    with pytest.raises(ValueError, match="output=3 does not exist"):
        PredictionBandDisplay.from_estimator(three_outputs, output=3)


def test_band_refuses_several_inputs():
    X = np.random.default_rng(0).normal(size=(20, 2))
    model = SpectralGPRegressor(RBF(), optimizer=None).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="single input"):
        PredictionBandDisplay.from_estimator(model)


# --- calibration ---------------------------------------------------------------------------------


def test_calibration_counts_what_lies_inside(gp, motorcycle, tmp_path):
    X, y = motorcycle
    display = CalibrationDisplay.from_estimator(gp, X, y, coverages=[0.5, 0.9], name="mine")
    labels = render(display, tmp_path)
    assert labels == ["95 % if calibrated, n = 133", "calibrated", "mine"]
    for nominal, share in zip(display.nominal, display.empirical, strict=True):
        lower, upper = gp.predict_interval(X, coverage=nominal)
        assert share == np.mean((lower <= y) & (y <= upper))
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == (
        "nominal coverage",
        "share of observations inside",
    )


def test_calibration_of_scikit_learn_joins_the_same_axis(gp, motorcycle, tmp_path):
    X, y = motorcycle
    theirs = gp.to_sklearn()
    first = CalibrationDisplay.from_estimator(gp, X, y)
    second = CalibrationDisplay.from_estimator(theirs, X, y, ax=first.ax_)
    labels = render(second, tmp_path)
    assert labels[-2:] == ["SpectralGPRegressor", "GaussianProcessRegressor"]
    assert len(second.ax_.collections) == 1  # one background for both
    np.testing.assert_allclose(first.empirical, second.empirical, atol=0.02)
    mean, std = theirs.predict(X, return_std=True)
    given = CalibrationDisplay.from_predictions(y, mean, std)
    np.testing.assert_array_equal(given.empirical, second.empirical)


def test_calibration_of_a_calibrated_model_is_inside_its_region():
    rng = np.random.default_rng(0)
    y, std = rng.normal(size=(2000, 2)) * [1.0, 3.0], np.tile([1.0, 3.0], (2000, 1))
    display = CalibrationDisplay.from_predictions(y, np.zeros_like(y), std)
    assert display.n_observations == 4000
    assert np.abs(display.empirical - display.nominal).max() < 0.03


def test_calibration_works_through_pipelines_and_refuses_models_without_spread(motorcycle):
    X, y = motorcycle
    pipe = make_pipeline(StandardScaler(), SpectralGPRegressor(RBF(0.4), optimizer=None)).fit(X, y)
    inside = CalibrationDisplay.from_estimator(pipe[-1], pipe[:-1].transform(X), y)
    np.testing.assert_array_equal(CalibrationDisplay.from_estimator(pipe, X, y).empirical, inside.empirical)
    with pytest.raises(TypeError, match="LinearRegression has no"):
        CalibrationDisplay.from_estimator(LinearRegression().fit(X, y), X, y)
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        CalibrationDisplay.from_estimator(pipe, X, y, coverages=[1.0])


# --- kernel search -------------------------------------------------------------------------------


def test_search_over_one_number_is_a_curve(motorcycle, tmp_path):
    gammas = np.logspace(-3, 0, 7)
    search = KernelSearchCV(SpectralKernelRidge(), {"gamma": gammas}).fit(*motorcycle)
    display = KernelSearchDisplay.from_estimator(search)
    assert render(display, tmp_path) == ["best: 0.032"]
    np.testing.assert_array_equal(display.scores, search.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(display.values[0], gammas)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("gamma", "log evidence")
    assert display.ax_.get_xscale() == "log"
    assert display.spread is None


def test_search_with_folds_shows_their_spread(motorcycle, tmp_path):
    grid = {"gamma": [0.01, 0.02, 0.05]}
    search = GridSearchCV(SpectralKernelRidge(), grid, scoring="r2", cv=3).fit(*motorcycle)
    display = KernelSearchDisplay.from_estimator(search)
    assert "± one std over folds" in render(display, tmp_path)
    np.testing.assert_array_equal(display.spread, search.cv_results_["std_test_score"])
    assert display.score_name == "r2"
    assert display.ax_.get_xscale() == "linear"


def test_search_over_two_parameters_is_a_map(motorcycle, tmp_path):
    grid = {"gamma": np.logspace(-3, 0, 13), "alpha": np.logspace(-3, 1, 5)}
    search = KernelSearchCV(SpectralKernelRidge(), grid).fit(*motorcycle)
    display = KernelSearchDisplay.from_estimator(search)
    assert render(display, tmp_path) == ["best"]
    assert display.params == ("alpha", "gamma")
    assert display.scores.shape == (5, 13)
    assert display.scores.max() == search.best_score_
    row, column = np.argwhere(display.scores == search.best_score_)[0]
    assert display.values[0][row] == search.best_params_["alpha"]
    assert display.values[1][column] == search.best_params_["gamma"]
    np.testing.assert_array_equal(display.ax_.images[0].get_array(), display.scores)
    assert_tick_labels_apart(display)
    best_gamma = KernelSearchDisplay.from_estimator(search, params="gamma")
    np.testing.assert_array_equal(best_gamma.scores, display.scores.max(axis=0))


def test_search_over_kernels_is_a_list_with_the_best_on_top(motorcycle, tmp_path):
    kernels = [Matern(5.0, nu=0.5), RBF(5.0), Matern(5.0, nu=1.5)]
    search = KernelSearchCV(SpectralGPRegressor(optimizer=None), {"kernel": kernels}).fit(*motorcycle)
    display = KernelSearchDisplay.from_estimator(search)
    render(display, tmp_path)
    names = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert names[-1] == str(search.best_params_["kernel"])
    assert sorted(names) == sorted(map(str, kernels))


def test_search_asks_which_parameters_and_scores(motorcycle):
    grid = {"gamma": [0.01, 0.1], "alpha": [0.1, 1.0], "fit_intercept": [True, False]}
    search = KernelSearchCV(
        SpectralKernelRidge(), grid, cv=3, scoring=["r2", "neg_mean_squared_error"], refit="r2"
    ).fit(*motorcycle)
    with pytest.raises(ValueError, match="3 parameters vary: alpha, fit_intercept, gamma"):
        KernelSearchDisplay.from_estimator(search)
    display = KernelSearchDisplay.from_estimator(search, params=("gamma", "alpha"))
    assert display.score_name == "r2"
    assert display.scores.max() == search.cv_results_["mean_test_r2"].max()
    with pytest.raises(ValueError, match="score must be one of r2, neg_mean_squared_error"):
        KernelSearchDisplay.from_estimator(search, params="gamma", score="mae")
    with pytest.raises(ValueError, match="one or two of"):
        KernelSearchDisplay.from_estimator(search, params="nu")


def test_search_leaves_failed_candidates_blank(motorcycle, tmp_path):
    class Failing(SpectralKernelRidge):
        def fit(self, X, y, sample_weight=None):
            if self.gamma > 0.5:
                raise ValueError("no")
            return super().fit(X, y, sample_weight)

    search = KernelSearchCV(Failing(), {"gamma": [0.01, 0.1, 1.0]})
    with pytest.warns(FitFailedWarning), pytest.warns(UserWarning, match="non-finite"):
        search.fit(*motorcycle)
    display = KernelSearchDisplay.from_estimator(search)
    render(display, tmp_path)
    assert np.isnan(display.scores).tolist() == [False, False, True]


# --- all -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_displays_draw_on_given_axes_and_again(gp, ridge, motorcycle, tmp_path):
    search = KernelSearchCV(SpectralKernelRidge(), {"gamma": [0.01, 0.1, 1.0]}).fit(*motorcycle)
    figure, axes = plt.subplots(2, 3, figsize=(14, 8), layout="constrained")
    displays = [
        EvidenceDisplay.from_estimator(gp, ax=axes[0, 0]),
        EvidenceSurfaceDisplay.from_estimator(gp, ax=axes[0, 1]),
        SpectrumDisplay.from_estimator(gp, ax=axes[0, 2]),
        PredictionBandDisplay.from_estimator(gp, ax=axes[1, 0]),
        CalibrationDisplay.from_estimator(gp, *motorcycle, ax=axes[1, 1]),
        KernelSearchDisplay.from_estimator(search, ax=axes[1, 2]),
    ]
    figure.savefig(tmp_path / "all.png")
    for display, ax in zip(displays, axes.flat, strict=True):
        assert display.ax_ is ax
        assert display.figure_ is figure
        assert display.plot() is display
        assert display.figure_ is not figure


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skspectral.UndeterminedVarianceWarning")
@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_extremes_are_drawn(scale, tmp_path):
    X = np.linspace(0, 5, 30)[:, None]
    Y = scale * np.column_stack([np.ones(30), np.sin(X[:, 0]), (-1.0) ** np.arange(30)])
    model = SpectralGPRegressor(Matern(1.0, nu=0.5), optimizer=None).fit(X, Y)  # no noise, no signal, neither
    display = EvidenceDisplay.from_estimator(model)
    render(display, tmp_path)
    assert np.isfinite(display.curves["evidence"]).all()
    assert not display.curves["evidence"][:, 0].any()
    assert display.optima["evidence"][1] == 0.0
    for output in range(3):
        render(EvidenceSurfaceDisplay.from_estimator(model, output=output), tmp_path)
        render(SpectrumDisplay.from_estimator(model, output=output), tmp_path)
        render(PredictionBandDisplay.from_estimator(model, output=output), tmp_path)
        plt.close("all")


@pytest.mark.filterwarnings("ignore::skspectral.UndeterminedVarianceWarning")
def test_a_single_row_has_no_spectrum_to_show():
    model = SpectralGPRegressor(RBF(), optimizer=None).fit([[0.0]], [1.0])
    with pytest.raises(ValueError, match="no spectrum to show"):
        SpectrumDisplay.from_estimator(model)


def test_the_palette_is_colour_blind_safe():
    from skspectral.displays.canvas import COLORS

    okabe_ito = {"#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7"}
    assert set(COLORS) <= okabe_ito
    assert len(set(COLORS)) == len(COLORS)


def test_without_matplotlib_the_error_says_what_to_install(gp, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'skspectral\[plot\]'"):
        EvidenceDisplay.from_estimator(gp)


def test_importing_displays_does_not_import_matplotlib():
    code = "import sys; from skspectral import displays; print('matplotlib' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_correlations_of_signals_stand_above_and_of_noise_below_the_diagonal(three_outputs, tmp_path):
    X, Y = three_outputs.X_train_, three_outputs.y_train_
    gp = SpectralGPRegressor(RBF(1.0), outputs="correlated", optimizer=None).fit(X, Y)
    display = CorrelationDisplay.from_estimator(gp, names=["a", "b", "c"])
    correlations = gp.output_correlations()
    shown = display.ax_.images[0].get_array()
    for i, j in ((0, 1), (0, 2), (1, 2)):
        signal, noise = correlations.signal[i, j], correlations.noise[i, j]
        if np.isfinite(signal):
            assert shown[i, j] == signal
            assert display.text_[i, j].get_text().startswith(f"{signal:.2f}\n± ")
        assert shown[j, i] == noise
        assert display.text_[j, i].get_text() == f"{noise:.2f}\n± {correlations.noise_se[i, j]:.2f}"
    assert display.text_[0, 0] is None
    assert [label.get_text() for label in display.ax_.get_xticklabels()] == ["a", "b", "c"]
    display.figure_.savefig(tmp_path / "correlation.png")


def test_correlations_need_a_model_that_has_them(three_outputs):
    with pytest.raises(ValueError, match="outputs='correlated'"):
        CorrelationDisplay.from_estimator(three_outputs)
    with pytest.raises(TypeError, match="LinearRegression has none"):
        CorrelationDisplay.from_estimator(LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0]))
    X, Y = three_outputs.X_train_, three_outputs.y_train_
    gp = SpectralGPRegressor(RBF(1.0), outputs="correlated", optimizer=None).fit(X, Y)
    with pytest.raises(ValueError, match=r"2 entries, but the model has 3"):
        CorrelationDisplay.from_estimator(gp, names=["a", "b"])


def test_the_spectrum_of_targets_with_holes_is_refused(three_outputs):
    Y = three_outputs.y_train_.copy()
    Y[0, 0] = np.nan
    gp = SpectralGPRegressor(RBF(1.0), optimizer=None).fit(three_outputs.X_train_, Y)
    with pytest.raises(ValueError, match="missing entries"):
        SpectrumDisplay.from_estimator(gp)
