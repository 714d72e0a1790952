"""Fits side by side: in threads that share a decomposition, and in processes that map it for reading."""

import os
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from problems import smooth
from sklearn.base import clone, is_classifier
from sklearn.gaussian_process.kernels import RBF, Matern
from threadpoolctl import threadpool_info, threadpool_limits

from skspectral import (
    GeneralizedGPRegressor,
    KernelSearchCV,
    LaplacianProcessRegressor,
    RelevanceVectorClassifier,
    RelevanceVectorRegressor,
    SpectralGPClassifier,
    SpectralGPRegressor,
    SpectralKernelRidge,
    Spectrum,
)
from skspectral.inference import candidates
from skspectral.inference.solution import Solution
from skspectral.models import fitted, gaussian_process, latent, relevance
from skspectral.support import threads
from skspectral.support.threads import at_most, available_threads, threads_for


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.mark.parametrize("p", [20, 100])
def test_threads_share_the_vectors_of_a_factor(p):
    rng = np.random.default_rng(0)
    Phi, Y = rng.normal(size=(3000, p)), rng.normal(size=(3000, 3))
    spectrum = Spectrum.from_factor(Phi, np.ones((3000, 1)))
    expected = spectrum.rotate(Y).y_tilde
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: spectrum.rotate(Y).y_tilde, range(100)):
            assert np.array_equal(found, expected)


def test_a_search_in_threads_scores_as_without():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 20))
    y = X @ rng.normal(size=20) + rng.normal(size=4000)
    grid = {"alpha": np.geomspace(1e-2, 1e3, 20)}
    one, four = (
        KernelSearchCV(SpectralKernelRidge(kernel="linear"), grid, cv=3, n_jobs=n).fit(X, y) for n in (1, 4)
    )
    np.testing.assert_allclose(
        one.cv_results_["mean_test_score"], four.cv_results_["mean_test_score"], rtol=1e-12
    )


def test_vectors_are_read_where_they_cannot_be_written():
    X, y = smooth(0, n=200, p=3)
    ridge = SpectralKernelRidge(kernel="linear").fit(X, y)
    expected = ridge.loo_predict()
    ridge.spectrum_.U.reflectors.setflags(write=False)
    ridge.spectrum_.U.blocks.setflags(write=False)
    again = ridge.with_alpha(ridge.alpha_)
    np.testing.assert_allclose(again.loo_predict(), expected, rtol=1e-12)


def test_limits_of_threads_that_overlap_are_lifted_by_the_last():
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        first, second = threads_for(10), threads_for(20)
        first.__enter__()
        second.__enter__()
        assert set(blas_threads()) == {1}
        first.__exit__(None, None, None)
        assert set(blas_threads()) == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == before


def test_the_smallest_of_several_limits_holds():
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with at_most(2):
            assert available_threads() == min(before)
            with threads_for(10):
                assert set(blas_threads()) == {1}
                assert available_threads() == min(before)
            assert set(blas_threads()) == {2}
        assert blas_threads() == before


def test_limits_are_set_where_they_change(monkeypatch):
    """A limit inside of another costs nothing."""
    told, original = [], threads._Pool.set

    def telling(pool, num_threads):
        told.append(num_threads)
        original(pool, num_threads)

    monkeypatch.setattr(threads._Pool, "set", telling)
    with threadpool_limits(2, user_api="blas"):
        n = len(blas_threads())
        for _ in range(2):
            told.clear()
            with at_most(1):
                with at_most(1):
                    assert told == n * [1]
                assert told == n * [1]
                assert blas_threads() == n * [1]
            assert told == n * [1] + n * [2]


def test_a_limit_that_an_interrupt_left_unknown_is_set_again(monkeypatch):
    original, fails = threads._Pool.set, iter([True])

    def failing(pool, num_threads):
        original(pool, num_threads)
        if next(fails, False):
            raise KeyboardInterrupt

    with threadpool_limits(2, user_api="blas"), at_most(2):
        with monkeypatch.context() as patched:
            patched.setattr(threads._Pool, "set", failing)
            with pytest.raises(KeyboardInterrupt), at_most(1):
                pass
        assert set(blas_threads()) == {2}
        with at_most(1):
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {2}


def test_fits_in_threads_leave_the_threads_of_blas_alone():
    X, y = smooth(2, n=200)
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        fits = (joblib.delayed(SpectralGPRegressor(RBF(1.0)).fit)(X, y) for _ in range(6))
        models = joblib.Parallel(n_jobs=3, backend="threading")(fits)
        assert blas_threads() == before
    assert len({model.kernel_.length_scale for model in models}) == 1


@pytest.mark.parametrize("where", ["enter", "leave"])
def test_an_interrupt_while_limits_change_leaves_none_behind(where, monkeypatch):
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        original, interrupts = getattr(threads._limits, where), iter([True])

        def interrupted(*args):
            if where == "enter":
                original(*args)
            if next(interrupts, False):
                raise KeyboardInterrupt
            if where == "leave":
                original(*args)

        monkeypatch.setattr(threads._limits, where, interrupted)
        with pytest.raises(KeyboardInterrupt), at_most(1):
            pass
        assert blas_threads() == before


def test_workers_that_outlive_a_search_lift_their_limits():
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        inside, may_leave = threading.Event(), threading.Event()

        def abandoned():
            with at_most(1):
                inside.set()
                may_leave.wait(10)

        def search():
            with at_most(1):
                worker.start()
                inside.wait(10)
                raise KeyboardInterrupt

        worker = threading.Thread(target=abandoned)
        with pytest.raises(KeyboardInterrupt):
            search()
        may_leave.set()
        worker.join()
        assert blas_threads() == before
        assert available_threads() == 2


def test_a_forked_child_has_all_threads():
    with threadpool_limits(2, user_api="blas"), at_most(1):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write, bytes(blas_threads()))
            os._exit(0)
        os.waitpid(child, 0)
        assert set(os.read(read, 16)) == {2}
        assert set(blas_threads()) == {1}


# -- predictions in blocks of rows


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        SpectralKernelRidge(gamma=0.5),
        SpectralKernelRidge(gamma=0.5, method="low_rank", rank=30),
        SpectralGPRegressor(RBF(1.0), optimizer=None),
        SpectralGPRegressor(Matern(1.0, nu=1.5), optimizer=None),
        SpectralGPRegressor(RBF(1.0), optimizer=None, inference="integrate"),
    ],
    ids=repr,
)
def test_predictions_of_many_rows_take_little_memory(model, monkeypatch):
    X, y = smooth(3, n=200)
    new = np.random.default_rng(0).uniform(-2, 2, (4000, 2))
    model.fit(X, y)
    spread = {} if isinstance(model, SpectralKernelRidge) else {"return_std": True}
    whole = np.array(model.predict(new, **spread))
    monkeypatch.setattr("skspectral.models.fitted._BLOCK_ENTRIES", 2**14)
    tracemalloc.start()
    in_blocks = np.array(model.predict(new, **spread))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    np.testing.assert_allclose(in_blocks, whole, rtol=1e-10)
    assert peak < 0.5 * 8 * 200 * 4000  # not even half of the kernel of all new with all training rows
    if spread:
        np.testing.assert_allclose(
            model.predict_interval(new[:5]), [end[:5] for end in model.predict_interval(new)], rtol=1e-9
        )


def test_a_joint_distribution_that_does_not_fit_is_refused_before_it_is_made(monkeypatch):
    X, y = smooth(3, n=20)
    gp = SpectralGPRegressor(RBF(1.0), optimizer=None).fit(X, y)
    monkeypatch.setattr("skspectral.support.memory.physical_memory", lambda: 1e6)
    new = np.zeros((400, 2))
    for call in (lambda: gp.predict(new, return_cov=True), lambda: gp.sample_y(new)):
        with pytest.raises(MemoryError, match=r"400 new points and 1 output.*return_std=True"):
            call()
    assert gp.predict(new[:20], return_cov=True)[1].shape == (20, 20)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_items_are_mapped_in_order_with_one_thread_of_blas_each(n_threads, monkeypatch):
    monkeypatch.setattr(threads, "available_threads", lambda: n_threads)
    before = blas_threads()

    def square(item):
        return item**2, blas_threads(), threading.get_ident()

    values, limits, workers = zip(*threads.map_in_threads(square, list(range(20))), strict=True)
    assert values == tuple(i**2 for i in range(20))
    assert {limit for each in limits for limit in each} == {1}
    assert 1 <= len(set(workers)) <= n_threads
    assert (threading.get_ident() in workers) == (n_threads == 1)
    assert blas_threads() == before
    assert threads.map_in_threads(square, []) == []
    [(value, limits, worker)] = threads.map_in_threads(square, [7])
    assert (value, worker) == (49, threading.get_ident())
    assert list(limits) == list(before)  # all of BLAS for one item


@pytest.mark.parametrize(("most", "inside"), [(30, 1), (29, 2)])
def test_relevance_vectors_among_few_functions_have_one_thread(monkeypatch, most, inside):
    seen, expand, adopt = [], relevance.expand, RelevanceVectorRegressor._adopt

    def expanded(*args, **settings):
        seen.append(max(blas_threads()))
        return expand(*args, **settings)

    def adopted(*args):
        seen.append(max(blas_threads()))
        return adopt(*args)

    monkeypatch.setattr(relevance, "expand", expanded)
    monkeypatch.setattr(RelevanceVectorRegressor, "_adopt", adopted)
    monkeypatch.setattr(candidates, "_ALL", most)
    monkeypatch.setattr(candidates, "_FIRST", 10)
    monkeypatch.setattr(threads, "_ONE_THREAD_UP_TO", 20**2)  # beyond it scipy has all
    X = np.linspace(0.0, 3.0, 30)[:, None]
    with threadpool_limits(2):
        RelevanceVectorRegressor().fit(X, np.sin(2.0 * X[:, 0]))
        assert seen == [inside, inside]
        assert max(blas_threads()) == 2


@pytest.mark.parametrize(
    "model", [SpectralGPRegressor(RBF(1.0), optimizer=None), SpectralKernelRidge()], ids=["GP", "ridge"]
)
def test_targets_meet_eigenvectors_while_no_other_threads_are_in_their_way(model, monkeypatch):
    """From the kernel matrix to the attributes of a fit, and where rows are left out."""
    seen = {"rotate": [], "_adopt": [], "leave_one_out": []}

    def watched(owner, name):
        original = getattr(owner, name)

        def method(*args, **kwargs):
            seen[name].append(max(blas_threads()))
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, method)

    for owner, name in ((Spectrum, "rotate"), (type(model), "_adopt"), (Solution, "leave_one_out")):
        watched(owner, name)
    X, y = smooth(0, n=40)
    with threadpool_limits(2):
        clone(model).fit(X, np.column_stack([y, -y])).loo_predict()
        assert max(blas_threads()) == 2
    assert [set(limits) for limits in seen.values()] == [{1}, {1}, {1}]


@pytest.mark.parametrize(
    "model",
    [
        GeneralizedGPRegressor(kernel=RBF(1.0), optimizer=None),
        LaplacianProcessRegressor(),
        RelevanceVectorClassifier(),
        SpectralGPClassifier(RBF(1.0), optimizer=None),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_fit_has_one_thread_where_rows_are_few_from_the_first_matrix_on(model, monkeypatch):
    seen, fitted_to = [], type(model)._fitted_to

    def watched(*args):
        seen.append(max(blas_threads()))
        return fitted_to(*args)

    monkeypatch.setattr(type(model), "_fitted_to", watched)
    X, y = smooth(0, n=40)
    with threadpool_limits(2):
        clone(model).fit(X, y > 0 if is_classifier(model) else y)
        assert seen == [1]
        assert max(blas_threads()) == 2


@pytest.mark.parametrize(
    ("owner", "name", "ask"),
    [
        (gaussian_process, "profiled_evidence", lambda gp, _, __: gp.log_marginal_likelihood([0.1], True)),
        (fitted, "JackknifePlus", lambda gp, _, X: gp.predict_interval(X, method="jackknife+")),
        (latent, "approximate_evidence", lambda _, gpc, __: gpc.log_marginal_likelihood([0.1, 0.1], True)),
        (latent.LatentFitted, "mean_and_variance", lambda _, gpc, X: gpc.predict_proba(X)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_questions_after_a_fit_have_one_thread_where_rows_are_few(owner, name, ask, monkeypatch):
    seen, original = [], getattr(owner, name)

    def watched(*args, **settings):
        seen.append(max(blas_threads()))
        return original(*args, **settings)

    X, y = smooth(0, n=40)
    gp = SpectralGPRegressor(RBF(1.0), optimizer=None).fit(X, y)
    gpc = SpectralGPClassifier(RBF(1.0), optimizer=None).fit(X, y > 0)
    monkeypatch.setattr(owner, name, watched)
    with threadpool_limits(2):
        ask(gp, gpc, X[:3])
        assert set(seen) == {1}
        assert max(blas_threads()) == 2
