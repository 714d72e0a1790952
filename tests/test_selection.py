"""Greedy selection and progress as users of the estimators meet them."""

import numpy as np
import pytest
from problems import close, smooth
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF

from skspectral import SpectralGPRegressor, SpectralKernelRidge
from skspectral.support import progress

ESTIMATORS = [
    SpectralKernelRidge(gamma=0.5, selection="greedy"),
    SpectralGPRegressor(RBF(1.0), optimizer=None, selection="greedy"),
    SpectralGPRegressor(RBF(3.0), selection="greedy"),
]
each_estimator = pytest.mark.parametrize("estimator", ESTIMATORS)


@pytest.mark.slow
@each_estimator
@pytest.mark.parametrize("method", ["auto", "low_rank"])
def test_greedy_rows_predict_like_all_rows_at_a_small_rank(estimator, method):
    X, y = smooth(1, n=500)
    exact = clone(estimator).set_params(method="exact", selection="pivots").fit(X, y)
    greedy = clone(estimator).set_params(method=method).fit(X, y)
    assert greedy.rank_ < 80
    # a gap of 0.5 % in |y - f|^2 + g |f|^2 leaves at most that share of |y|^2 to |f - f_exact|^2
    difference = greedy.predict(X) - exact.predict(X)
    assert np.mean(difference**2) < 0.005 * np.var(y)
    lower, upper = greedy.evidence_bounds_
    assert lower < upper


@each_estimator
def test_the_rank_limits_the_greedy_choice(estimator):
    X, Y = smooth(3, n=200, m=2)
    assert clone(estimator).set_params(rank=4).fit(X, Y).rank_ == 4


@each_estimator
def test_the_exact_method_has_no_selection(estimator):
    X, y = smooth(4, n=60)
    exact, plain = (
        clone(estimator).set_params(method="exact", selection=s).fit(X, y) for s in ("greedy", "pivots")
    )
    assert np.array_equal(exact.predict(X), plain.predict(X))


def test_other_targets_choose_other_rows_also_where_decompositions_are_shared():
    X, y = smooth(5, n=300)
    model = SpectralKernelRidge(gamma=2.0, selection="greedy", rank=10)
    first = clone(model).fit(X, y)._fitted.decomposition.feature_map.landmarks
    second = clone(model).fit(X, np.where(X[:, 0] > 1, y, 0.0))._fitted.decomposition.feature_map.landmarks
    assert not np.array_equal(first, second)
    assert (second[:, 0] > 0.5).mean() > (first[:, 0] > 0.5).mean()


@pytest.mark.parametrize("alpha", [1e-4, [0.5, 3.0]])
def test_a_given_alpha_says_how_exact_a_factor_must_be(alpha):
    X, Y = smooth(11, n=300, m=2)
    model = SpectralKernelRidge(alpha, gamma=0.3, method="low_rank").fit(X, Y)
    exact = SpectralKernelRidge(alpha, gamma=0.3, method="exact").fit(X, Y)
    lower, upper = model.evidence_bounds_
    assert (upper - lower < 1e-2).all()
    assert (lower <= exact.log_evidence_ + 1e-9).all()
    assert (exact.log_evidence_ <= upper + 1e-9).all()
    assert close(model.predict(X), exact.predict(X), 1e-2)


def test_a_given_alpha_is_the_penalty_of_the_greedy_choice():
    X, y = smooth(12, n=300)
    stiff, supple = (
        SpectralKernelRidge(alpha, gamma=1.0, selection="greedy").fit(X, y) for alpha in (30, 0.1)
    )
    assert stiff.rank_ < supple.rank_


@pytest.mark.parametrize("options", [{"rank": 2}, {"rank": 2, "method": "low_rank"}, {"selection": "greedy"}])
def test_a_linear_kernel_is_cut_where_asked(options):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(80, 5))
    y = X @ [1.0, 0, 0, 0, 0] + 0.1 * rng.normal(size=80)
    cut = SpectralKernelRidge(kernel="linear", **options).fit(X, y)
    assert cut.rank_ <= options.get("rank", 5)
    assert cut._fitted.decomposition.feature_map is not None


@pytest.mark.parametrize("options", [{"rank": 5}, {"method": "low_rank"}, {"method": "exact", "rank": 2}])
def test_a_linear_kernel_stays_exact_where_that_is_no_more_work(options):
    X = np.random.default_rng(7).normal(size=(80, 5))
    y = X.sum(axis=1)
    expected = SpectralKernelRidge(kernel="linear").fit(X, y).predict(X)
    assert close(SpectralKernelRidge(kernel="linear", **options).fit(X, y).predict(X), expected, 1e-12)


def test_progress_tells_rows_and_rank(capsys):
    X, y = smooth(8, n=1500)
    model = SpectralKernelRidge(gamma=0.5, method="low_rank", verbose=2)
    model.fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("[SpectralKernelRidge] rows 1500, rank ")
    assert "of the trace left" in lines[0]
    assert lines[-1] == f"[SpectralKernelRidge] rows 1500 of 1500, rank {model.rank_}"
    clone(model).set_params(selection="greedy", rank=3).fit(X, y)
    assert "rank 3, gap" in capsys.readouterr().out.splitlines()[-1]


def test_progress_of_learning_tells_rows_and_rank(capsys):
    X, y = smooth(9, n=1200)
    gp = SpectralGPRegressor(RBF(1.0), method="low_rank", verbose=2).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert any("rows 1200, rank" in line and "objective" in line for line in lines)
    assert "ahead: levels of 150, 300, 600, 1200 rows" in lines[0]
    assert any("rows 150, rank" in line for line in lines)  # first an eighth of them
    assert f"[SpectralGPRegressor] rows 1200 of 1200, rank {gp.rank_}" in lines
    assert gp.rank_ < 400


def test_progress_is_a_line_a_second(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    calm, silent = progress.Progress("calm", 1), progress.Progress("silent", 0)
    for now[0] in (0.5, 1.5, 2.0, 2.6):
        calm(n_rows=90, rank=int(10 * now[0]))
        silent(n_rows=90, rank=1)
    assert capsys.readouterr().out.splitlines() == ["[calm] rows 90, rank 15", "[calm] rows 90, rank 26"]


@pytest.mark.parametrize("estimator", [SpectralKernelRidge, SpectralGPRegressor])
def test_an_unknown_selection_is_refused(estimator):
    X, y = smooth(10)
    with pytest.raises(ValueError, match="selection"):
        estimator(selection="best").fit(X, y)
