"""Fits side by side: in threads that share a decomposition, and in processes that map it for reading."""

from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from problems import smooth
from sklearn.gaussian_process.kernels import RBF
from threadpoolctl import threadpool_info, threadpool_limits

from skspectral import KernelSearchCV, SpectralGPRegressor, SpectralKernelRidge, Spectrum
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


def test_fits_in_threads_leave_the_threads_of_blas_alone():
    X, y = smooth(2, n=200)
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        fits = (joblib.delayed(SpectralGPRegressor(RBF(1.0)).fit)(X, y) for _ in range(6))
        models = joblib.Parallel(n_jobs=3, backend="threading")(fits)
        assert blas_threads() == before
    assert len({model.kernel_.length_scale for model in models}) == 1
