"""Fitted estimators survive files and processes, data frames go in, and people can read what they see."""

import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import skops.io
from sklearn import config_context
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics import get_scorer
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skspectral
from skspectral import (
    KernelSearchCV,
    SpectralGPRegressor,
    SpectralKernelRidge,
    StreamingSpectralRegressor,
    load_motorcycle,
)

MODELS = {
    "ridge": SpectralKernelRidge(gamma=0.02),
    "linear ridge": SpectralKernelRidge(kernel="linear"),
    "process": SpectralGPRegressor(RBF(5.0)),
    "averaged": SpectralGPRegressor(RBF(5.0), optimizer=None, inference="integrate"),
    "averaged over kernels": SpectralGPRegressor(RBF(5.0), inference="integrate"),
    "trend": SpectralGPRegressor(RBF(5.0), optimizer=None, basis="quadratic"),
    "low rank": SpectralGPRegressor(RBF(5.0), optimizer=None, method="low_rank", rank=20),
    "stream": StreamingSpectralRegressor(RBF(5.0), landmarks=20),
    "pipeline": make_pipeline(StandardScaler(), SpectralGPRegressor(RBF(0.4), optimizer=None)),
    "search": KernelSearchCV(SpectralKernelRidge(), {"gamma": [0.01, 0.1]}),
}
each_model = pytest.mark.parametrize("name", list(MODELS))


@pytest.fixture(scope="module")
def data():
    return load_motorcycle(return_X_y=True)


@pytest.fixture(scope="module")
def fitted(data):
    return {name: model.fit(*data) for name, model in MODELS.items()}


def answers(model, X):
    """Return what a fitted model says, as one array: predictions, and all else that it knows."""
    last = getattr(model, "best_estimator_", model[-1] if hasattr(model, "steps") else model)
    parts = [model.predict(X)]
    if hasattr(last, "variance_uncertainty"):
        found = last.variance_uncertainty()[0]
        parts += [last.loo_predict(), found.noise_interval, found.signal_interval]
    if hasattr(last, "predict_interval"):
        parts += last.predict_interval(X)
    if hasattr(last, "sample_y"):
        parts += last.predict(X, return_std=True)
    return np.concatenate(parts)


READ = """
import joblib, pathlib, pickle, sys
import numpy as np
from skspectral import load_motorcycle
from test_persistence import answers

X, _ = load_motorcycle(return_X_y=True)
for file in pathlib.Path(sys.argv[2]).glob("*.model"):
    model = joblib.load(file) if sys.argv[1] == "joblib" else pickle.loads(file.read_bytes())
    np.save(file.with_suffix(".npy"), answers(model, X))
"""


@pytest.mark.slow
@pytest.mark.parametrize("library", ["pickle", "joblib"])
def test_another_process_reads_what_this_one_wrote(library, data, fitted, tmp_path):
    for name, model in fitted.items():
        file = tmp_path / f"{name}.model"
        joblib.dump(model, file) if library == "joblib" else file.write_bytes(pickle.dumps(model))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    subprocess.run([sys.executable, "-c", READ, library, str(tmp_path)], check=True, env=environment)
    for name, model in fitted.items():
        read = np.load(tmp_path / f"{name}.npy")
        np.testing.assert_allclose(read, answers(model, data[0]), rtol=1e-9, atol=1e-9)


@each_model
def test_skops_needs_trust_in_nothing_but_this_package_and_scikit_learn(name, data, fitted):
    stored = skops.io.dumps(fitted[name])
    untrusted = skops.io.get_untrusted_types(data=stored)
    assert untrusted
    assert all(kind.startswith(("skspectral.", "sklearn.")) for kind in untrusted)
    loaded = skops.io.loads(stored, trusted=untrusted)
    np.testing.assert_array_equal(answers(loaded, data[0]), answers(fitted[name], data[0]))


def test_a_file_holds_one_matrix(data):
    model = SpectralGPRegressor(RBF(5.0), optimizer=None).fit(*data)
    n = len(model.X_train_)
    assert len(pickle.dumps(model)) < 1.3 * 8 * n * n


@each_model
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_data_frames_are_arrays_with_names(name, frame, data, fitted):
    X, y = data
    X_frame, y_series = frame({"times": X[:, 0]}), frame({"accel": y})["accel"]
    model = MODELS[name]
    framed = pickle.loads(pickle.dumps(model)).fit(X_frame, y_series)  # a copy, not the shared one
    assert framed.feature_names_in_.tolist() == ["times"]
    expected = fitted[name].predict(X)
    np.testing.assert_array_equal(framed.predict(X_frame), expected)
    assert isinstance(framed.predict(X_frame), np.ndarray)
    with pytest.raises(ValueError, match="feature names should match"):
        framed.predict(frame({"time": X[:, 0]}))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_of_several_targets(frame, data):
    X, y = data
    Y = np.column_stack([y, -2 * y])
    model = SpectralGPRegressor(RBF(5.0), optimizer=None).fit(frame({"times": X[:, 0]}), frame(Y))
    np.testing.assert_array_equal(model.y_train_, Y)
    assert model.noise_variance_.shape == (2,)


def test_metadata_routing_takes_weights_through_a_search_and_a_pipeline(data):
    X, y = data
    weight = np.where(X[:, 0] < 15, 1.0, 0.3)
    with config_context(enable_metadata_routing=True):
        ridge = SpectralKernelRidge(gamma=1.0).set_fit_request(sample_weight=True)
        ridge.set_score_request(sample_weight=True)
        pipe = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), ridge)
        routed = KernelSearchCV(pipe, {"spectralkernelridge__gamma": [1.0]}).fit(X, y, sample_weight=weight)
        scorer = get_scorer("r2").set_score_request(sample_weight=True)  # scores of Pipelines: from 1.8 on
        params = {"sample_weight": weight}
        result = cross_validate(pipe, X, y, params=params, scoring=scorer, cv=3, return_estimator=True)
    scaled = StandardScaler().fit_transform(X)
    direct = SpectralKernelRidge(gamma=1.0).fit(scaled, y, sample_weight=weight)
    np.testing.assert_allclose(routed.predict(X), direct.predict(scaled))
    assert len(result["estimator"]) == 3


@each_model
def test_html_shows_the_model_before_and_after_fit(name, fitted):
    html = fitted[name]._repr_html_()
    last = fitted[name].steps[-1][1] if name == "pipeline" else fitted[name]
    assert type(last).__name__ in html
    assert "Fitted" in html
    assert "Not fitted" in SpectralKernelRidge()._repr_html_()  # a process has a prior to predict from


@pytest.mark.parametrize("name", sorted(set(skspectral.__all__) - {"__version__"}))
def test_pydoc_has_something_to_say(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pydoc

        text = pydoc.plain(pydoc.render_doc(f"skspectral.{name}"))
    documented = getattr(skspectral, name).__doc__
    if isinstance(getattr(skspectral, name), type):
        assert documented.strip().splitlines()[0] in text
    assert len(text) > 300


@pytest.mark.slow
def test_pydoc_runs_as_a_command():
    command = [sys.executable, "-m", "pydoc", "skspectral.SpectralGPRegressor"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    for heading in ("Parameters", "Attributes", "Notes", "Examples", "fit(self, X:", "sample_weight:"):
        assert heading in result.stdout


def test_what_was_cached_on_the_way_is_not_written(data):
    gp = SpectralGPRegressor(RBF(5.0), fit_intercept=False).fit(*data)
    rows = gp._fitted.data
    assert {"standardised", "rows"} <= vars(rows).keys()
    read = pickle.loads(pickle.dumps(rows))
    assert vars(read).keys() == {"X", "Y", "weight", "basis"}
    assert np.array_equal(read.standardised[0], rows.standardised[0])


def test_what_predictions_of_a_factor_keep_is_not_written(data):
    gp = SpectralGPRegressor(RBF(5.0), optimizer=None, method="low_rank", rank=5).fit(*data)
    mean, std = gp.predict(data[0][:3], return_std=True)
    decomposition = gp._fitted.decomposition
    assert "projection" in vars(decomposition)
    assert "projection" not in vars(pickle.loads(pickle.dumps(decomposition)))
    again = pickle.loads(pickle.dumps(gp)).predict(data[0][:3], return_std=True)
    np.testing.assert_array_equal(again, [mean, std])
