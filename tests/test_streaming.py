"""Statistics that add up, and the regressor that lives on them."""

import pickle
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems import close, smooth
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

from skspectral import (
    FeatureStatistics,
    SpectralGPRegressor,
    Spectrum,
    StreamingSpectralRegressor,
)
from skspectral.criteria import CRITERIA
from skspectral.inference.solution import solve
from skspectral.inference.variances import VarianceBounds
from skspectral.kernels import Columns
from skspectral.kernels.gram import make_gram
from skspectral.linalg import factors
from skspectral.linalg.factors import FeatureMap
from skspectral.streaming.features import Chunk, Features
from skspectral.streaming.learning import Survey
from skspectral.streaming.model import Model, State

# Most of these tests are about sums over rows: kernels stay as they are given.
FixedKernelStream = partial(StreamingSpectralRegressor, optimizer=None)

FIELDS = ("n_rows", "half_log_weight", "weight", "mean", "scatter")


def weights_of(kind, n, seed=0):
    rng = np.random.default_rng(seed)
    drawn = {
        "none": None,
        "precisions": rng.uniform(0.1, 1.0, n),
        "with zeros": rng.uniform(0.1, 1.0, n) * np.append(1, rng.uniform(size=n - 1) < 0.7),
        "repeats": rng.choice([0.5, 1.0, 2.0, 3.0], n),
    }
    return drawn[kind]


def rows(seed, n, r=4, m=2, offset=0.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, r)) + offset, rng.normal(size=(n, m)) + offset


def same(a, b, rel=1e-12):
    return all(close(np.asarray(getattr(a, f)), np.asarray(getattr(b, f)), rel) for f in FIELDS)


def cut(n, sizes):
    """Return slices that cut n rows into chunks of the given sizes, the last takes what is left."""
    ends = np.append(0, np.cumsum(sizes))
    ends = np.append(ends[ends < n], n)
    return [slice(a, b) for a, b in pairwise(ends)]


def streamed(model, X, y, chunks, weight=None):
    model = clone(model)
    for part in chunks:
        model.partial_fit(X[part], y[part], None if weight is None else weight[part])
    return model


# ---- statistics ----


@given(
    seed=st.integers(0, 10_000),
    sizes=st.lists(st.integers(1, 20), min_size=1, max_size=6),
    weights=st.sampled_from(["none", "precisions", "with zeros", "repeats"]),
    offset=st.sampled_from([0.0, 1e3]),
)
def test_chunks_add_up_to_the_whole(seed, sizes, weights, offset):
    n = sum(sizes)
    Phi, Y = rows(seed, n, offset=offset)
    w = weights_of(weights, n, seed)
    whole = FeatureStatistics.from_rows(Phi, Y, w)
    total = FeatureStatistics.nothing(4, 2)
    for part in cut(n, sizes):
        total = total + FeatureStatistics.from_rows(Phi[part], Y[part], None if w is None else w[part])
    assert same(total, whole, 1e-10)


def test_addition_is_associative_commutative_and_has_a_neutral_element():
    a, b, c = (FeatureStatistics.from_rows(*rows(seed, 10 + seed, offset=seed)) for seed in range(3))
    nothing = FeatureStatistics.nothing(4, 2)
    assert same((a + b) + c, a + (b + c))
    assert same(a + b, b + a)
    assert same(a + nothing, a, 0.0)
    assert same(nothing + a, a)
    assert same(nothing + nothing, nothing)


def test_weights_count_as_in_rows():
    Phi, Y = rows(0, 6)
    w = np.array([0.0, 0.25, 1.0, 2.0, 3.0, 0.5])
    found = FeatureStatistics.from_rows(Phi, Y, w)
    assert found.n_rows == 5
    assert found.half_log_weight == pytest.approx(0.5 * np.log(w[1:]).sum())
    assert found.weight == pytest.approx(w.sum())
    for intercept in (True, False):
        basis = np.ones((6, 1)) if intercept else None
        assert found.counts(intercept) == pytest.approx(Spectrum.from_factor(Phi, basis, w).rows.counts)


def test_statistics_of_other_features_are_refused():
    with pytest.raises(ValueError, match="4 features and 2 outputs cannot be added to those of 3 and 2"):
        FeatureStatistics.nothing(4, 2) + FeatureStatistics.nothing(3, 2)
    with pytest.raises(TypeError):
        FeatureStatistics.nothing(4, 2) + 1


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weights", ["none", "precisions", "with zeros", "repeats"])
@pytest.mark.parametrize("n", [3, 5, 6, 50])
def test_sums_give_what_the_rows_give(intercept, weights, n):
    Phi, Y = rows(1, n, offset=2.0)
    w = weights_of(weights, n, seed=2)
    spectrum = Spectrum.from_factor(Phi, np.ones((n, 1)) if intercept else None, w)
    by_rows, by_sums = spectrum.rotate(Y), FeatureStatistics.from_rows(Phi, Y, w).rotate(intercept)
    assert close(by_sums.s, by_rows.s, 1e-10)
    assert close(by_sums.count, by_rows.count, 1e-12)
    assert close(by_sums.energy, by_rows.energy, 1e-9)
    assert close(by_sums.scale, by_rows.scale, 1e-12)
    new, _ = rows(3, 5)
    basis = np.ones((5, 1)) if intercept else None
    statistics = FeatureStatistics.from_rows(Phi, Y, w)
    features = Features(None, VarianceBounds(noise=(1e-3, 1e3)), FeatureMap(np.eye(4), np.eye(4)))
    for name in ("evidence", "gcv"):
        # bounds keep the variances off the noise-free limit, which sums and rows resolve to other digits
        with_rows = solve(by_rows, CRITERIA[name], features.bounds)
        with_sums = Model.make(State(2, features, statistics), CRITERIA[name], intercept, True)
        assert np.allclose(with_sums.tuned.noise_var, with_rows.noise_var, rtol=1e-6)
        assert np.allclose(with_sums.tuned.log_evidence, with_rows.log_evidence, rtol=1e-8)
        assert close(with_sums.coef, Phi.T @ with_rows.range_dual, 1e-6)
        assert close(with_sums.intercept, with_rows.beta[0] if intercept else np.zeros(2), 1e-6)
        prior = np.full(5, 20.0)
        by_features = with_rows.spectrum.of_features.project(new, prior, basis)
        of_sums = with_sums.spectrum.of_features(with_sums.QPhi, with_sums.R_inv)
        by_moments = of_sums.project(new, prior, basis)
        expected = with_rows.predictive_variance(*by_features)
        assert close(with_sums.tuned.predictive_variance(*by_moments), expected, 1e-6)


def test_a_large_mean_costs_no_digits():
    Phi, Y = rows(4, 200)
    near, far = (FeatureStatistics.from_rows(Phi, Y + shift).rotate() for shift in (0.0, 1e6))
    assert close(far.energy, near.energy, 1e-8)


# ---- the regressor ----


@pytest.mark.parametrize("weights", ["none", "precisions", "with zeros", "repeats"])
@pytest.mark.parametrize("m", [None, 3])
@pytest.mark.parametrize("intercept", [True, False])
def test_any_chunking_gives_the_answer_of_one_batch(weights, m, intercept):
    X, y = smooth(0, n=400, m=m)
    w = weights_of(weights, len(X))
    model = FixedKernelStream(RBF(1.0), landmarks=X[:40], fit_intercept=intercept)
    batch = clone(model).fit(X, y, w)
    expected = batch.predict(X, return_std=True)
    for sizes in ([100], [1, 2, 3], [7] * 100):
        chunked = streamed(model, X, y, cut(400, sizes), w)
        for mine, theirs in zip(chunked.predict(X, return_std=True), expected, strict=True):
            assert close(mine, theirs, 1e-8)
        for name in ("noise_variance_", "signal_variance_", "log_evidence_", "intercept_", "effective_dof_"):
            assert np.allclose(getattr(chunked, name), getattr(batch, name), rtol=1e-8)
        assert chunked.n_samples_seen_ == batch.n_samples_seen_


@pytest.mark.parametrize("selection", ["pivots", "greedy"])
def test_chosen_landmarks_do_not_depend_on_the_chunking(selection):
    X, y = smooth(1, n=2600)
    model = FixedKernelStream(RBF(1.0), landmarks=30, selection=selection)
    first, second = (streamed(model, X, y, cut(2600, sizes)) for sizes in ([900], [7, 1300]))
    assert np.array_equal(first.landmarks_, second.landmarks_)
    assert close(first.predict(X), second.predict(X), 1e-8)


def test_few_rows_in_one_batch_or_in_chunks_choose_alike():
    X, y = smooth(2, n=300)
    model = FixedKernelStream(landmarks=50)
    batch, chunked = clone(model).fit(X, y), streamed(model, X, y, cut(300, [30] * 9))
    assert np.array_equal(batch.landmarks_, chunked.landmarks_)
    assert batch.kernel_ == chunked.kernel_
    assert close(chunked.predict(X), batch.predict(X), 1e-8)


def test_a_model_is_there_after_every_chunk():
    X, y = smooth(3, n=1500)
    model = FixedKernelStream(RBF(1.0), landmarks=60)
    errors = []
    for part in cut(1500, [5, 45, 450]):
        model.partial_fit(X[part], y[part])
        errors.append(np.mean((model.predict(X) - y) ** 2))
        assert model.n_samples_seen_ == part.stop
    assert errors[0] > errors[1] > errors[3]
    assert model.rank_ == 60


@pytest.mark.parametrize("m", [None, 2])
def test_with_all_rows_as_landmarks_it_is_the_exact_model(m):
    X, y = smooth(4, n=150, m=m)
    exact = SpectralGPRegressor(RBF(0.7), optimizer=None, method="exact").fit(X, y)
    stream = FixedKernelStream(RBF(0.7), landmarks=X).fit(X, y)
    new = np.random.default_rng(0).uniform(-3, 3, (30, 2))
    for noise in (True, False):
        both = (model.predict(new, return_std=True, include_noise=noise) for model in (stream, exact))
        for mine, theirs in zip(*both, strict=True):
            assert close(mine, theirs, 1e-6)
    assert np.sum(stream.log_evidence_) == pytest.approx(exact.log_marginal_likelihood_value_, rel=1e-7)


def test_the_default_kernel_is_that_of_the_process():
    X, y = smooth(5, n=200)
    stream, exact = FixedKernelStream().fit(X, y), SpectralGPRegressor(optimizer=None).fit(X, y)
    assert stream.kernel_.length_scale == pytest.approx(exact.kernel_.length_scale)
    assert close(stream.predict(X), exact.predict(X), 1e-6)


def test_constant_and_white_kernels_bound_the_variances():
    X, y = smooth(6, n=200)
    fixed = ConstantKernel(2.0, "fixed") * RBF(1.0) + WhiteKernel(0.5, "fixed")
    model = FixedKernelStream(fixed, landmarks=X).fit(X, y)
    exact = SpectralGPRegressor(fixed, optimizer=None).fit(X, y)
    assert (model.signal_variance_, model.noise_variance_) == (pytest.approx(2.0), pytest.approx(0.5))
    assert model.tuning_[0].status == "fixed"
    assert close(model.predict(X), exact.predict(X), 1e-6)


def test_far_from_the_data_the_prior_returns():
    X, y = smooth(7, n=300)
    model = FixedKernelStream(RBF(1.0), landmarks=20).fit(X, y)
    mean, std = model.predict(np.full((1, 2), 100.0), return_std=True, include_noise=False)
    assert std[0] >= np.sqrt(model.signal_variance_) * (1 - 1e-9)
    assert mean[0] == pytest.approx(model.intercept_)
    assert model.predict(X, return_std=True, include_noise=False)[1].max() < 0.5 * std[0]


@pytest.mark.parametrize("criterion", ["evidence", "gcv", "posterior"])
def test_criteria_without_rows_are_tuned_from_the_sums(criterion):
    X, y = smooth(8, n=200)
    factor = factors.nystroem(make_gram(RBF(1.0)), X, X[:25])
    rotated = Spectrum.from_factor(factor.Phi, np.ones((200, 1))).rotate(y[:, None])
    by_rows = solve(rotated, CRITERIA[criterion])
    model = FixedKernelStream(RBF(1.0), landmarks=X[:25], criterion=criterion).fit(X, y)
    assert model.noise_variance_ == pytest.approx(by_rows.noise_var[0], rel=1e-6)
    assert model.criterion_value_ == pytest.approx(by_rows.tuning[0].value, rel=1e-8)


@pytest.mark.parametrize("criterion", ["loo", "loo_lpd"])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_criteria_that_need_rows_are_refused(criterion, method):
    X, y = smooth(9, n=20)
    model = FixedKernelStream(criterion=criterion)
    with pytest.raises(ValueError, match=r"a stream does not keep them.*'evidence', 'gcv', 'posterior'"):
        getattr(model, method)(X, y)


def test_every_output_has_variances_of_its_own():
    X, Y = smooth(10, n=300, m=2)
    Y[:, 1] += np.random.default_rng(0).normal(0, 2.0, 300)
    model = FixedKernelStream(RBF(1.0), landmarks=40)
    joint, alone = clone(model).fit(X, Y), clone(model).fit(X, Y[:, 1])
    assert joint.noise_variance_[1] == pytest.approx(alone.noise_variance_, rel=1e-8)
    assert close(joint.predict(X)[:, 1], alone.predict(X), 1e-8)
    assert joint.coef_.shape == (joint.rank_, 2)
    assert alone.coef_.shape == (alone.rank_,)


def test_a_bad_chunk_leaves_everything_as_it_was():
    X, y = smooth(11, n=300)
    model = FixedKernelStream(RBF(1.0), landmarks=X[:20]).partial_fit(X, y)
    before, expected = model.statistics_, model.predict(X)
    with_nan, target_nan = X.copy(), y.copy()
    with_nan[3, 1] = target_nan[5] = np.nan
    bad = [
        (X[:, :1], y, None, "1 features"),
        (with_nan, y, None, "NaN"),
        (X, target_nan, None, "NaN"),
        (X, np.column_stack([y, y]), None, r"2 output\(s\), but the chunks before had 1"),
        (X[:10], y, None, "inconsistent"),
        (X, y, -np.ones(300), "must not be negative"),
    ]
    for X_bad, y_bad, weight, message in bad:
        with pytest.raises(ValueError, match=message):
            model.partial_fit(X_bad, y_bad, weight)
    assert model.statistics_ is before
    assert np.array_equal(model.predict(X), expected)
    assert model.n_features_in_ == 2


def test_a_bad_first_chunk_leaves_it_unfitted():
    X, y = smooth(12, n=30)
    model = FixedKernelStream()
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(X, np.full(30, np.nan))
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(NotFittedError):
        _ = model.noise_variance_
    assert model.partial_fit(X[:, :1], y).n_features_in_ == 1


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_bad_landmarks_are_refused(method):
    X, y = smooth(13, n=30)
    bad = [
        (np.zeros((4, 3)), r"shape \(4, 3\) but the inputs have 2 columns"),
        (np.zeros(4), r"shape \(4,\)"),
        (np.full((4, 2), np.nan), "NaN"),
        (0, "landmarks"),
        (2.5, "landmarks"),
    ]
    for landmarks, message in bad:
        with pytest.raises(ValueError, match=message):
            getattr(FixedKernelStream(landmarks=landmarks), method)(X, y)


def test_rows_of_weight_zero_are_absent():
    X, y = smooth(14, n=120)
    w = weights_of("with zeros", 120)
    kept = w > 0
    model = FixedKernelStream(landmarks=15)
    with_zeros, alone = clone(model).fit(X, y, w), clone(model).fit(X[kept], y[kept], w[kept])
    assert close(with_zeros.predict(X), alone.predict(X), 1e-10)
    seen = alone.n_samples_seen_
    assert with_zeros.n_samples_seen_ == seen
    assert alone.partial_fit(X, y, np.zeros(120)).n_samples_seen_ == seen
    with pytest.raises(ValueError, match="at least one"):
        clone(model).fit(X, y, np.zeros(120))
    with pytest.raises(ValueError, match="no rows of positive weight to choose landmarks from"):
        clone(model).partial_fit(X, y, np.zeros(120)).predict(X)


def test_a_common_factor_of_the_weights_changes_no_prediction():
    X, y = smooth(15, n=60)
    w = np.random.default_rng(0).uniform(0.5, 2.0, 60)
    model = FixedKernelStream(RBF(1.0), landmarks=X[:20])
    plain, scaled = (clone(model).fit(X, y, factor * w) for factor in (1.0, 1e4))
    assert close(scaled.predict(X), plain.predict(X), 1e-8)
    assert scaled.noise_variance_ == pytest.approx(1e4 * plain.noise_variance_, rel=1e-7)
    # 1/2 log|F'WF| is part of the restricted evidence
    assert scaled.log_evidence_ == pytest.approx(plain.log_evidence_ + 0.5 * np.log(1e4), rel=1e-8)


def test_it_can_be_pickled_at_any_moment():
    X, y = smooth(16, n=1400)
    model = FixedKernelStream(RBF(1.0), landmarks=30)
    for part in cut(1400, [200, 1000]):
        model.partial_fit(X[part], y[part])
        copy = pickle.loads(pickle.dumps(model))
        assert np.array_equal(copy.predict(X), model.predict(X))
    again = pickle.loads(pickle.dumps(model)).partial_fit(X, y)
    assert close(again.predict(X), model.partial_fit(X, y).predict(X), 1e-12)


def test_fit_forgets_and_partial_fit_continues():
    X, y = smooth(17, n=200)
    model = FixedKernelStream(RBF(1.0), landmarks=20).fit(X, y)
    fresh = model.predict(X)
    model.partial_fit(X, y + 1.0)
    assert model.n_samples_seen_ == 400
    assert model.intercept_ != pytest.approx(np.mean(y), abs=1e-3)
    assert np.array_equal(model.fit(X, y).predict(X), fresh)


def test_sorted_rows_get_landmarks_everywhere():
    X = np.linspace(0, 100, 20_000)[:, None]
    y = np.sin(X[:, 0])
    model = FixedKernelStream(RBF(1.0), landmarks=200).fit(X, y + 0.1 * np.cos(1e5 * X[:, 0]))
    assert model.landmarks_.max() > 95
    assert np.abs(model.predict(X) - y).max() < 0.1


def test_the_same_seed_draws_the_same_landmarks():
    X, y = smooth(18, n=2500)
    model = FixedKernelStream(RBF(1.0), landmarks=20, selection="greedy")
    first, second = clone(model).fit(X, y), clone(model).fit(X, y)
    other = clone(model).set_params(random_state=1).fit(X, y)
    assert np.array_equal(first.landmarks_, second.landmarks_)
    assert not np.array_equal(first.landmarks_, other.landmarks_)


def test_it_tells_how_far_it_is(capsys):
    X, y = smooth(19, n=1500)
    model = FixedKernelStream(RBF(1.0), landmarks=10, verbose=1)
    streamed(model, X, y, cut(1500, [400]))
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "[StreamingSpectralRegressor] rows 400, rank not chosen yet",
        "[StreamingSpectralRegressor] rows 1500, rank 10",
    ]


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.ones((30, 2)), np.arange(30.0)),
        (np.ones((1, 2)), np.ones(1)),
        (np.repeat(smooth(0, n=5)[0], 6, axis=0), np.random.default_rng(0).normal(size=30)),
        (smooth(0, n=30)[0], np.full(30, 7.0)),
        (smooth(0, n=30)[0], 1e150 * np.arange(30.0)),
        (smooth(0, n=30)[0], 1e-150 * np.arange(30.0)),
        (smooth(0, n=30)[0], np.random.default_rng(1).normal(size=30)),
        (smooth(0, n=30)[0], smooth(0, n=30)[0][:, 0]),
    ],
    ids=["same X", "one row", "duplicates", "constant", "huge", "tiny", "noise", "noise-free"],
)
@pytest.mark.parametrize("kernel", [RBF(1.0), DotProduct(0.0, "fixed")])
@pytest.mark.parametrize("selection", ["pivots", "greedy"])
@pytest.mark.filterwarnings("ignore::skspectral.UndeterminedVarianceWarning")
def test_extremes_are_answered(X, y, kernel, selection):
    model = FixedKernelStream(kernel, selection=selection).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (np.isfinite(std) == (model.tuning_[0].status != "undetermined")).all()
    if np.ptp(y) == 0:
        assert close(model.predict(X), y, 1e-12)


def test_memory_does_not_grow_with_the_rows():
    import tracemalloc

    model = FixedKernelStream(RBF(1.0), landmarks=smooth(0, n=50)[0])
    X, y = smooth(20, n=5000)
    model.partial_fit(X, y)
    tracemalloc.start()
    for _ in range(5):
        model.partial_fit(X, y)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1e6
    assert peak < 6 * 8 * 5000 * 50


def test_statistics_can_be_summed():
    X, y = smooth(31, n=90)
    parts = [FeatureStatistics.from_rows(X[i::3], y[i::3, None]) for i in range(3)]
    whole = FeatureStatistics.from_rows(X, y[:, None])
    assert close(sum(parts).scatter, whole.scatter, 1e-12)
    with pytest.raises(TypeError):
        1 + parts[0]


@pytest.mark.parametrize("n", [500, 20_000])
@pytest.mark.filterwarnings("ignore::skspectral.UndeterminedVarianceWarning")
def test_a_constant_target_has_no_noise(n):
    X = np.random.default_rng(0).uniform(size=(n, 2))
    model = FixedKernelStream(RBF(1.0), landmarks=20).fit(X, np.full(n, 3.3))
    assert model.noise_variance_ == 0.0
    assert model.predict(X[:5]) == pytest.approx(3.3)


def test_a_first_chunk_may_be_absent():
    X, y = smooth(32, n=60)
    model = FixedKernelStream(RBF(1.0), landmarks=X[:10]).partial_fit(X, y, np.zeros(60))
    assert model.n_samples_seen_ == 0
    assert close(model.partial_fit(X, y).predict(X), clone(model).fit(X, y).predict(X), 1e-12)


def test_the_greedy_choice_knows_of_the_intercept():
    X, y = smooth(30, n=400)
    ranks = [
        FixedKernelStream(RBF(1.0), selection="greedy", fit_intercept=intercept).fit(X, y + 30.0).rank_
        for intercept in (True, False)
    ]
    assert ranks[0] > ranks[1]  # without intercept the constant is most of what there is to explain


ARD = RBF([1.0, 1.0])


def test_what_a_stream_learns_is_the_best_lower_bound():
    X, y = smooth(3, n=1500)
    model = StreamingSpectralRegressor(ARD, landmarks=25).fit(X, y)
    lower, upper = model.evidence_bounds_
    at_theta = {"landmarks": model.landmarks_, "optimizer": None}
    for step in 0.3 * np.concatenate([np.zeros((1, 2)), np.eye(2), -np.eye(2)]):
        kernel = ARD.clone_with_theta(model.kernel_.theta + step)
        other = StreamingSpectralRegressor(kernel, **at_theta).fit(X, y).evidence_bounds_[0]
        assert other <= lower + (0.05 if step.any() else 1e-6 * abs(lower))
    exact = SpectralGPRegressor(model.kernel_, optimizer=None, method="exact").fit(X, y)
    assert lower < exact.log_evidence_at(model.noise_variance_, model.signal_variance_) < upper


def test_memory_maps_are_learned_from(tmp_path):
    X, y = smooth(3, n=1200)
    np.save(tmp_path / "X.npy", X)
    model = StreamingSpectralRegressor(ARD, landmarks=20)
    mapped = clone(model).fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
    assert np.array_equal(mapped.kernel_.theta, clone(model).fit(X, y).kernel_.theta)


@pytest.mark.parametrize("landmarks", [20, smooth(9, n=20)[0]])
def test_chunks_are_learned_from_once(landmarks, capsys):
    X, y = smooth(3, n=1600)
    model = StreamingSpectralRegressor(ARD, landmarks=landmarks, verbose=1)
    model.partial_fit(X[:600], y[:600])
    assert model.n_samples_seen_ == 600
    model.partial_fit(X[600:1100], y[600:1100])
    learned = model.kernel_.theta
    assert np.abs(learned - ARD.theta).max() > 0.1
    told = capsys.readouterr().out
    assert "ahead: kernel learned on 1000 of 1000 rows" in told
    assert "kernel learned on the first 1000 rows, kept from here on" in told
    model.partial_fit(X[1100:], y[1100:])
    assert np.array_equal(model.kernel_.theta, learned)
    assert model.n_samples_seen_ == 1600
    assert "learned" not in capsys.readouterr().out


def test_greedy_landmarks_are_chosen_after_learning():
    X, y = smooth(3, n=1200)
    greedy = StreamingSpectralRegressor(ARD, landmarks=40, selection="greedy").fit(X, y)
    pivots = StreamingSpectralRegressor(ARD, landmarks=40).fit(X, y)
    assert np.array_equal(greedy.kernel_.theta, pivots.kernel_.theta)
    assert greedy.rank_ < pivots.rank_


@pytest.mark.filterwarnings("ignore::skspectral.UndeterminedVarianceWarning")
@pytest.mark.parametrize("y", [np.full(60, 2.0), np.zeros(60)])
def test_nothing_is_learned_from_constants(y):
    X, _ = smooth(3, n=60)
    model = StreamingSpectralRegressor(ARD, landmarks=20).fit(X, y)
    assert model.kernel_ == ARD
    assert np.allclose(model.predict(X), y)


def test_a_sample_depends_on_the_content_of_rows_alone():
    X, y = smooth(3, n=500)
    chunk = Chunk(X, y[:, None], weights_of("precisions", 500))
    order = np.random.default_rng(0).permutation(500)
    whole = Survey.of(chunk, 60, 1)
    parts = [Survey.of(chunk[rows], 60, 1) for rows in np.array_split(order, 7)]
    added = sum(parts[1:], start=parts[0])
    for one, other in zip(vars(whole.sample).values(), vars(added.sample).values(), strict=True):
        assert np.array_equal(one, other)
    assert len(whole.sample) == 60
    assert not np.array_equal(whole.sample.X, Survey.of(chunk, 60, 2).sample.X)
    # spread like the rows
    assert np.abs(whole.sample.X.mean(axis=0) - X.mean(axis=0)).max() < 4 * 1.2 / np.sqrt(60)


def test_columns_of_kernels_have_the_names_of_the_table():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.sin(X[:, 2])
    named = Columns(RBF(1.0), ["depth"])
    model = StreamingSpectralRegressor(named, landmarks=20).fit(
        pd.DataFrame(X, columns=["a", "b", "depth"]), y
    )
    by_position = StreamingSpectralRegressor(Columns(RBF(1.0), 2), landmarks=20).fit(X, y)
    frame = pd.DataFrame(X[:5], columns=["a", "b", "depth"])
    np.testing.assert_allclose(model.predict(frame), by_position.predict(X[:5]))
    with pytest.raises(ValueError, match="Column 'width' does not exist"):
        StreamingSpectralRegressor(Columns(RBF(), ["width"])).fit(frame, y[:5])
