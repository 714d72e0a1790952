"""How fast and how good is classification beside scikit-learn's GaussianProcessClassifier?

Speed: two classes without an intercept, kernel ConstantKernel * RBF learned from the same start, an ARD one
over 5 inputs and an isotropic one. That our log marginal likelihood is no smaller (by more than 0.01) is
asserted before anything is timed. A fit of 10,000 rows of a smooth problem stands alone.

Quality: test log loss and accuracy with defaults, ours with an intercept and all classes jointly, theirs with
the learned ConstantKernel * RBF from the same start; means over ten splits, of digits over three.

Run `python -m benchmarks.bench_classes` (a quarter of an hour, nearly all of it scikit-learn's), or with
`--fast`. `--only speed` and `--only losses` measure one part, and keep the other as it was measured last.
scikit-learn's log losses are kept in benchmarks/results/classes_peer.json and taken from there: a run that
was stopped goes on, and ours can be repeated alone.
"""

import argparse
import json
import sys
import warnings
from functools import partial

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skspectral import KernelBoundWarning, SpectralGPClassifier

from . import harness

PARTS = "speed", "losses"
GOALS = {"ARD": 40.0, "isotropic": 20.0}
# Geometric mean of the log losses beside scikit-learn's.
LOSS_GOAL = 0.9
LARGE_GOAL = 60.0
# What a log evidence may be smaller by.
NEGLIGIBLE = 0.01
# Of digits, beside what scikit-learn reaches: accuracy and log loss.
DIGITS_GOALS = 0.97, 0.15
BLUE, ORANGE = "#0072B2", "#D55E00"


def main(argv=None):
    """Check, time, print, save."""
    extra = argparse.ArgumentParser(add_help=False)
    extra.add_argument("--only", default="")
    given, rest = extra.parse_known_args(sys.argv[1:] if argv is None else argv)
    options = harness.parse_arguments(__doc__, rest)
    warnings.simplefilter("ignore", KernelBoundWarning)
    warnings.simplefilter("ignore", ConvergenceWarning)
    record = kept_record(options.fast)
    with harness.pinned(options.threads):
        if given.only in "speed":
            record["environment"] = harness.environment(options.threads)
            record["parts"]["speed"] = speed_part(options)
        if given.only in "losses":
            record.setdefault("environment", harness.environment(options.threads))
            losses = all_losses(options.fast)
            record["parts"]["losses"] = loss_rows(losses)
            record["quality"] = {name: values.mean(axis=0).tolist() for name, values in losses.items()}
    record["rows"] = [row for part in PARTS for row in record["parts"].get(part, [])]
    harness.print_entries(f"Classes{' (smoke run)' if options.fast else ''}", record["rows"])
    harness.save("classes", record, draw(record["quality"]))


def kept_record(fast):
    """Return what the last run wrote, whose parts stay as they are if they are not measured again."""
    path = harness.RESULTS / f"classes{'_fast' if fast else ''}.json"
    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))
    return {"fast": fast, "parts": {}, "quality": {}}


def speed_part(options):
    """Return the rows of all that is timed."""
    n, large = (150, 1200) if options.fast else (1000, 10_000)
    rows, seconds = speed_rows(n, options.repeats or 1), seconds_of_many_rows(large)
    many = harness.entry(f"n = {large}", "time of a fit", seconds, LARGE_GOAL, at_least=False, unit="s")
    return [*rows, many]


def all_losses(fast):
    """Return log losses and accuracies of all data sets, see `measure_losses`."""
    kept, splits = harness.Kept("classes_peer", fast), 1 if fast else 10
    return {name: measure_losses(name, splits_of(name, splits), kept) for name in data_sets(fast)}


def two_classes(n):
    """Return 5 inputs, three of which matter, and classes with label noise."""
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 5))
    f = 2.0 * np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2]
    return X, (f + 0.7 * rng.logistic(size=n) > 0).astype(int)


def speed_rows(n, repeats):
    """Return how much faster learning is with each kernel, beside the log evidence gained."""
    rows = []
    for name, goal in GOALS.items():
        times, gain, n_evaluations = measure_speed(n, name, repeats)
        ours, theirs = times["skspectral"], times["scikit-learn"].median
        spread = tuple(theirs / seconds for seconds in reversed(ours.quartiles))
        print(f"{name}: {ours.median:.2f} s, {n_evaluations} evaluations; scikit-learn {theirs:.2f} s")
        rows += [
            harness.entry(name, "log evidence - scikit-learn's", gain, -NEGLIGIBLE, unit=""),
            harness.entry(name, "scikit-learn / ours", theirs / ours.median, goal, spread=spread),
        ]
    return rows


def measure_speed(n, name, repeats):
    """Return the timings of both, after asserting that ours finds an evidence that is as large."""
    X, y = two_classes(n)
    kernel = ConstantKernel(1.0) * RBF(np.ones(5) if name == "ARD" else 1.0)
    ours, theirs = SpectralGPClassifier(kernel, fit_intercept=False), GaussianProcessClassifier(kernel)
    gain = ours.fit(X, y).log_marginal_likelihood_value_ - theirs.fit(X, y).log_marginal_likelihood_value_
    assert gain >= -NEGLIGIBLE, f"{name}: the log marginal likelihood is smaller by {-gain:.3g}"
    cases = {"skspectral": partial(ours.fit, X, y), "scikit-learn": partial(theirs.fit, X, y)}
    return harness.time_in_turn(cases, repeats, warm_ups=0), gain, ours.n_evaluations_


def seconds_of_many_rows(n):
    """Return the time of one fit to many rows of a function of two inputs."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (n, 2))
    y = (np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.2 * rng.logistic(size=n) > 0).astype(int)
    model = SpectralGPClassifier()
    return harness.time_in_turn({"fit": partial(model.fit, X, y)}, 1, warm_ups=0)["fit"].median


def data_sets(fast):
    """Return the names of the data sets of a run."""
    return ("iris", "moons") if fast else ("iris", "wine", "breast cancer", "digits", "moons", "noisy")


def splits_of(name, splits):
    """Return how many splits a data set gets: digits three at most, scikit-learn's take long."""
    return min(splits, 3) if name == "digits" else splits


def load(name):
    """Return inputs of unit scale and classes."""
    if name == "moons":
        return make_moons(400, noise=0.3, random_state=0)
    if name == "noisy":
        return two_classes(400)
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        return X / 16, y
    loaders = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}
    X, y = loaders[name](return_X_y=True)
    return StandardScaler().fit_transform(X), y


def measure_losses(name, splits, kept):
    """Return log loss and accuracy of both on each split, (splits, 2, 2)."""
    losses = np.array([losses_of_split(name, split, kept) for split in range(splits)])
    (ours, _), (theirs, _) = losses.mean(axis=0)
    print(f"{name}: log loss {ours:.4f}, scikit-learn's {theirs:.4f}", flush=True)
    return losses


def losses_of_split(name, split, kept):
    """Return log loss and accuracy of ours and of theirs, (2, 2)."""
    X, y = load(name)
    size = 800 if name == "digits" else 0.6
    parts = train_test_split(X, y, train_size=size, random_state=split, stratify=y)
    start = float(np.sqrt(parts[0].var(axis=0).sum()))
    theirs = kept.of(
        f"{name} {split}", lambda: tested(GaussianProcessClassifier(ConstantKernel(1.0) * RBF(start)), *parts)
    )
    return [tested(SpectralGPClassifier(), *parts), theirs]


def tested(model, X_train, X_test, y_train, y_test):
    """Return log loss and accuracy of a model on test rows."""
    model.fit(X_train, y_train)
    return [float(log_loss(y_test, model.predict_proba(X_test))), float(model.score(X_test, y_test))]


def loss_rows(losses):
    """Return our test log losses beside theirs, accuracy and log loss of digits, and the mean ratio."""
    rows = []
    for name, values in losses.items():
        (ours, accuracy), (theirs, _) = values.mean(axis=0)
        rows.append(harness.entry(name, "log loss / scikit-learn's", ours / theirs, 1.0, at_least=False))
        if name == "digits":
            rows += [
                harness.entry(name, "accuracy", accuracy, DIGITS_GOALS[0], unit=""),
                harness.entry(name, "log loss", ours, DIGITS_GOALS[1], at_least=False, unit=""),
            ]
    what = "log loss / scikit-learn's, geometric mean"
    return [*rows, harness.entry("all", what, mean_ratio(losses), LOSS_GOAL, at_least=False)]


def mean_ratio(losses):
    """Return the geometric mean over data sets of our log loss beside theirs."""
    means = [values[:, :, 0].mean(axis=0) for values in losses.values()]
    return float(np.exp(np.mean([np.log(ours / theirs) for ours, theirs in means])))


def draw(quality):
    """Return the figure: log losses of all data sets side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes, places = figure.subplots(), np.arange(len(quality))
    for k, (name, colour) in enumerate((("skspectral", BLUE), ("scikit-learn", ORANGE))):
        values = [of_set[k][0] for of_set in quality.values()]
        axes.bar(places + 0.4 * (k - 0.5), values, 0.4, color=colour, label=name)
    axes.set_xticks(places, quality)
    axes.set(ylabel="test log loss", title="Class probabilities")
    axes.legend(frameon=False)
    return figure


if __name__ == "__main__":
    main()
