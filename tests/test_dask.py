"""Dask collections: the same model as in memory, in threads and on a cluster, also when a worker dies."""

import os
import signal
from functools import partial

import numpy as np
import pandas as pd
import pytest
from problems import close, smooth
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF

from skspectral import StreamingSpectralRegressor
from skspectral.learning.landmarks import LandmarkObjective
from skspectral.streaming import blocks

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

# Most of these tests are about sums over rows: kernels stay as they are given.
FixedKernelStream = partial(StreamingSpectralRegressor, optimizer=None)

MODEL = FixedKernelStream(RBF(1.0), landmarks=smooth(99, n=30)[0])


def as_frame(X, y, n_partitions=4):
    frame = dd.from_pandas(pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}), npartitions=n_partitions)
    return frame[["a", "b"]], frame["y"]


def check_same(model, other, X, rel=1e-8):
    for mine, theirs in zip(
        model.predict(X, return_std=True), other.predict(X, return_std=True), strict=True
    ):
        assert close(mine, theirs, rel)
    assert np.allclose(model.log_evidence_, other.log_evidence_, rtol=rel)
    assert model.n_samples_seen_ == other.n_samples_seen_


@pytest.mark.parametrize("m", [None, 2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("chunks", [(100, 2), (37, 1), ((1, 399, 100), 2)])
def test_arrays_give_the_model_of_memory(m, weighted, chunks):
    X, y = smooth(0, n=500, m=m)
    w = np.random.default_rng(0).uniform(0.1, 1.0, 500) if weighted else None
    if weighted:
        w[:100] = 0.0  # a whole block is absent
    lazy = [da.from_array(X, chunks=chunks), da.from_array(y, chunks=(77, 1)[: y.ndim])]
    weight = None if w is None else da.from_array(w, chunks=50)
    check_same(clone(MODEL).fit(*lazy, weight), clone(MODEL).fit(X, y, w), X)


def test_targets_may_be_in_memory():
    X, y = smooth(1, n=200)
    check_same(clone(MODEL).fit(da.from_array(X, chunks=50), y), clone(MODEL).fit(X, y), X)


def test_frames_give_the_model_of_memory():
    X, y = smooth(2, n=300)
    frame, target = as_frame(X, y)
    model = clone(MODEL).fit(frame, target)
    assert list(model.feature_names_in_) == ["a", "b"]
    table = pd.DataFrame(X, columns=["a", "b"])
    check_same(model, clone(MODEL).fit(table, y), table)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a"]])
    mixed = clone(MODEL).fit(frame, da.from_array(y, chunks=100))
    assert close(mixed.predict(table), model.predict(table))


def test_frames_with_empty_partitions_are_summed():
    X, y = smooth(3, n=100)
    frame, target = as_frame(X, y, 5)
    kept = target > np.quantile(y[:20], 1.0)  # empties the first partition
    model = clone(MODEL).fit(frame[kept], target[kept])
    mask = y > np.quantile(y[:20], 1.0)
    assert model.n_samples_seen_ == mask.sum()


def test_predictions_stay_lazy():
    X, Y = smooth(4, n=300, m=2)
    model = clone(MODEL).fit(X, Y)
    lazy = da.from_array(X, chunks=(110, 1))
    mean, std = model.predict(lazy, return_std=True, include_noise=False)
    assert all(isinstance(part, da.Array) for part in (mean, std))
    assert mean.shape == std.shape == (300, 2)
    assert mean.chunks[0] == (110, 110, 80)
    expected = model.predict(X, return_std=True, include_noise=False)
    assert close(mean.compute(), expected[0], 1e-12)
    assert close(std.compute(), expected[1], 1e-10)
    single = model.fit(X, Y[:, 0])
    assert single.predict(lazy).shape == (300,)
    assert close(single.predict(lazy).compute(), single.predict(X), 1e-12)
    assert single.score(lazy, da.from_array(Y[:, 0], chunks=100)) == pytest.approx(single.score(X, Y[:, 0]))


def test_predictions_of_frames_stay_lazy():
    X, y = smooth(5, n=120)
    frame, target = as_frame(X, y)
    model = clone(MODEL).fit(frame, target)
    assert close(model.predict(frame).compute(), model.predict(pd.DataFrame(X, columns=["a", "b"])), 1e-12)


def test_landmarks_are_chosen_from_a_sample_of_the_blocks():
    X = np.linspace(0, 50, 20_000)[:, None]
    y = np.sin(X[:, 0]) + np.random.default_rng(0).normal(0, 0.1, len(X))
    lazy = da.from_array(X, chunks=500), da.from_array(y, chunks=500)
    model = FixedKernelStream(RBF(1.0), landmarks=80)
    first, second = clone(model).fit(*lazy), clone(model).fit(*lazy)
    assert np.array_equal(first.landmarks_, second.landmarks_)
    assert first.landmarks_.min() < 1.5
    assert first.landmarks_.max() > 48.5
    greedy = model.set_params(selection="greedy", random_state=0).fit(*lazy)
    assert greedy.n_samples_seen_ == 20_000


def test_bad_collections_are_refused():
    X, y = smooth(6, n=100)
    lazy, target = da.from_array(X, chunks=25), da.from_array(y, chunks=25)
    with_nan = X.copy()
    with_nan[60, 0] = np.nan
    bad = [
        (lazy[lazy[:, 0] > 0], target, "X is a dask array with unknown chunk sizes"),
        (lazy, target[target > 0], "y is a dask array with unknown chunk sizes"),
        (lazy, target[:50], "y has 50 rows but X has 100"),
        (da.from_array(with_nan, chunks=25), target, r"Block 2 of the rows: .*NaN"),
        (lazy[:, 0], target, "two dimensions"),
        (as_frame(X, y, 4)[0], as_frame(X, y, 2)[1], "y has 2 partitions but X has 4"),
    ]
    for X_bad, y_bad, message in bad:
        with pytest.raises(ValueError, match=message):
            clone(MODEL).fit(X_bad, y_bad)
    with pytest.raises(ValueError, match="landmarks have shape"):
        clone(MODEL).set_params(landmarks=np.ones((3, 5))).fit(lazy, target)
    with pytest.raises(ValueError, match="partial_fit takes chunks in memory"):
        clone(MODEL).partial_fit(lazy, target)
    with pytest.raises(ValueError, match="at least one"):
        clone(MODEL).fit(lazy, target, da.zeros(100, chunks=25))
    with pytest.raises(ValueError, match="no rows of positive weight"):
        FixedKernelStream().fit(lazy, target, da.zeros(100, chunks=25))
    with pytest.raises(ValueError, match="3 features"):
        clone(MODEL).fit(lazy, target).predict(da.ones((10, 3)))


def test_a_bad_block_leaves_the_model_as_it_was():
    X, y = smooth(7, n=100)
    model = clone(MODEL).fit(X, y)
    before = model.statistics_
    with pytest.raises(ValueError, match=r"Block [01]"):
        model.fit(da.from_array(np.full((100, 2), np.nan), chunks=50), da.from_array(y, chunks=50))
    assert model.statistics_ is before


# ---- a real cluster ----


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(**settings) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def die_once(block, marker, passes=0, block_info=None):
    """Return the block, but kill the worker that asks for the third one after so many times."""
    place = block_info[0]["chunk-location"][0]
    if place == 2:
        for name in [*(f"{marker}-{k}" for k in range(passes)), marker]:
            try:
                os.close(os.open(name, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            if name == marker:
                os.kill(os.getpid(), signal.SIGKILL)
            break
    return block


cluster_noise = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


@pytest.mark.slow
@cluster_noise
@pytest.mark.parametrize("landmarks", ["given", "chosen"])
def test_a_cluster_gives_the_model_of_memory(client, landmarks):
    X, y = smooth(8, n=2000)
    lazy = da.from_array(X, chunks=250), da.from_array(y, chunks=250)
    model = clone(MODEL) if landmarks == "given" else FixedKernelStream(RBF(1.0), landmarks=40)
    found = model.fit(*lazy)
    memory = clone(model).set_params(landmarks=found.landmarks_).fit(X, y)
    check_same(found, memory, X)
    assert close(found.predict(lazy[0]).compute(), found.predict(X), 1e-12)


@pytest.mark.slow
@cluster_noise
def test_a_worker_that_dies_loses_nothing(client, tmp_path):
    X, y = smooth(9, n=2000)
    marker = str(tmp_path / "died")
    fragile = da.from_array(X, chunks=(250, 2)).map_blocks(die_once, marker=marker, dtype=float)
    found = clone(MODEL).fit(fragile, da.from_array(y, chunks=250))
    assert os.path.exists(marker), "no worker was killed"
    check_same(found, clone(MODEL).fit(X, y), X)


@pytest.mark.slow
@cluster_noise
def test_a_worker_that_dies_while_a_kernel_is_learned_loses_nothing(client, tmp_path):
    X, y = smooth(9, n=2000)
    marker = str(tmp_path / "died")
    model = StreamingSpectralRegressor(RBF([1.0, 1.0]), landmarks=20)
    fragile = da.from_array(X, chunks=(250, 2)).map_blocks(die_once, marker=marker, passes=4, dtype=float)
    found = clone(model).fit(fragile, da.from_array(y, chunks=250))
    assert os.path.exists(marker), "no worker was killed"
    memory = clone(model).fit(X, y)
    assert np.abs(found.kernel_.theta - memory.kernel_.theta).max() < 1e-6
    check_same(found, memory, X, 1e-6)


def test_it_tells_how_far_the_blocks_are(capsys):
    X, y = smooth(7, n=250)
    lazy = da.from_array(X, chunks=10), da.from_array(y, chunks=10)
    silent, told = clone(MODEL).fit(*lazy), clone(MODEL).set_params(verbose=1).fit(*lazy)
    rows = [int(line.split()[2].rstrip(",")) for line in capsys.readouterr().out.splitlines()]
    assert rows == [*range(30, 250, 30), 250]
    assert close(told.predict(X), silent.predict(X), 1e-10)


@pytest.mark.slow
def test_small_blocks_are_sampled_until_there_are_enough_rows():
    X, y = smooth(8, n=2000)
    weight = np.zeros(2000)
    weight[1000:1100] = 1.0
    lazy = da.from_array(X, chunks=20), da.from_array(y, chunks=20)
    model = FixedKernelStream(RBF(0.2), landmarks=150)
    assert clone(model).fit(*lazy).rank_ == clone(model).fit(X, y).rank_ == 150
    few = clone(model).fit(*lazy, sample_weight=da.from_array(weight, chunks=20))
    assert few.n_samples_seen_ == 100


def test_targets_and_weights_need_not_be_dask_arrays():
    X, y = smooth(9, n=100)
    lazy = da.from_array(X, chunks=30)
    expected = clone(MODEL).fit(X, y, sample_weight=np.full(100, 0.5)).predict(X)
    assert close(clone(MODEL).fit(lazy, y.tolist(), sample_weight=0.5).predict(X), expected, 1e-9)


@pytest.mark.parametrize("of_weights", ["frame", "dask", "numpy"])
@pytest.mark.parametrize("of_y", ["frame", "dask", "numpy"])
@pytest.mark.parametrize("of_X", ["frame", "dask"])
def test_collections_of_every_kind_go_together(of_X, of_y, of_weights):
    X, y = smooth(10, n=90)
    w = np.random.default_rng(0).uniform(0.2, 1.0, 90)
    frame, target = as_frame(X, y, 3)
    weights = as_frame(X, w, 3)[1]
    kinds = {
        "frame": (frame, target, weights),
        "dask": tuple(da.from_array(part, chunks=(40, *part.shape[1:])) for part in (X, y, w)),
        "numpy": (X, y, w),
    }
    model = clone(MODEL).fit(kinds[of_X][0], kinds[of_y][1], sample_weight=kinds[of_weights][2])
    assert close(model.coef_, clone(MODEL).fit(X, y, sample_weight=w).coef_, 1e-8)


def test_predictions_of_one_dimension_are_refused():
    X, y = smooth(11, n=60)
    model = clone(MODEL).fit(X, y)
    with pytest.raises(ValueError, match="two dimensions"):
        model.predict(da.from_array(y, chunks=20))


ARD = RBF([1.0, 1.0])


@pytest.mark.parametrize("m", [None, 2])
@pytest.mark.parametrize("landmarks", [25, MODEL.landmarks])
def test_kernels_are_learned_as_in_memory(m, landmarks):
    X, y = smooth(7, n=1300, m=m)
    w = np.random.default_rng(0).uniform(0.1, 1.0, 1300)
    w[:300] = 0.0  # a whole block is absent
    model = StreamingSpectralRegressor(ARD, landmarks=landmarks)
    whole = clone(model).fit(X, y, w)
    order = np.random.default_rng(1).permutation(1300)
    lazy = [da.from_array(part[order], chunks=(170, 1)[: part.ndim]) for part in (X, y, w)]
    lazily = clone(model).fit(*lazy)
    assert np.abs(lazily.kernel_.theta - whole.kernel_.theta).max() < 1e-6
    assert np.abs(whole.kernel_.theta - ARD.theta).max() > 0.1
    check_same(lazily, whole, X, 1e-6)


def test_an_evaluation_is_two_passes_of_one_task_for_each_block(monkeypatch):
    X, y = smooth(7, n=1300)
    passes, values = [], []
    total, bound = blocks._tree_sum, LandmarkObjective._bound

    def counted(function, all_blocks, which):
        passes.append(len(which))
        return total(function, all_blocks, which)

    def counted_bound(self, kernel, landmarks):
        values.append(len(self.rows))
        return bound(self, kernel, landmarks)

    monkeypatch.setattr(blocks, "_tree_sum", counted)
    monkeypatch.setattr(LandmarkObjective, "_bound", counted_bound)
    StreamingSpectralRegressor(ARD, landmarks=25).fit(da.from_array(X, chunks=200), y)
    on_all_rows = values.count(1300)
    # a survey, sums and slopes (landmarks chosen anew need no slope), and the statistics of the end
    assert len(passes) == 1 + 2 * on_all_rows - 1 + 1
    assert set(passes) == {7}
    assert on_all_rows <= 30
