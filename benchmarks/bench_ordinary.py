"""How fast are fits and searches on data that no low rank suits, and on small data?

The twins of the rows of `bench_speed`, with the same letters: five inputs, uniform in [-2, 2]^5, that all
matter,

    y = sin 2x0 + x1^2 + 0.3 x2 x3 + 0.2 noise.

Then what people begin with: scikit-learn's example of CO2 at Mauna Loa (with `--co2`, a csv of columns date
and co2), few rows, many small fits, and a selection of features. Every ratio stands behind the difference of
log likelihoods from the same start, and is left out where ours is below the peer's by more than 0.01. Peers
are warmed up and repeated as we are. Each row has a process of its own; many small fits are timed once more
after a large array was freed, which makes scikit-learn's faster.

Run `python -m benchmarks.bench_ordinary --co2 FILE`, or with `--fast` for a smoke run.
"""

import warnings
from functools import partial

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.feature_selection import SequentialFeatureSelector
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    ExpSineSquared,
    RationalQuadratic,
    WhiteKernel,
)

from skspectral import KernelBoundWarning, SpectralGPRegressor

from . import harness, peers
from .bench_speed import (
    N_INPUTS,
    Run,
    assert_not_worse,
    invert,
    ours,
    over,
    ratio,
    report,
    search_row,
)

CO2 = ("co2", "csv with the columns date and co2, for scikit-learn's example")
# Goals by number of rows, of a learned RBF.
SMALL = {20: 1.5, 100: 2.0, 400: 4.0}
# Samples of fits of so few rows: three of some milliseconds each say little.
# Data sets of so few rows: one says little, too.
SAMPLES_OF_FEW, DRAWS = 25, 10


def main(argv=None):
    """Check, time, print, save."""
    options = harness.parse_arguments(__doc__, argv, files=[CO2])
    sizes = {"n": 200, "search": 100, "fits": 3} if options.fast else {"n": 2000, "search": 1000, "fits": 100}
    repeats = options.repeats or (1 if options.fast else 3)
    run = Run(sizes, repeats, options.threads, set(), options.fast)
    with harness.pinned(options.threads):
        record = {"environment": harness.environment(options.threads), "fast": options.fast, "sizes": sizes}
    if options.co2 is None:
        print("\nNotice: the row of CO2 is left out, pass --co2 FILE")
    rows = [*ROWS, *([] if options.co2 is None else [partial(co2_row, path=options.co2)])]
    for row in rows:
        run.rows += harness.alone(rows_of, row, run)
    report(run, "Ordinary data")
    harness.save("ordinary", record | {"rows": run.rows}, draw(run.rows))


def rows_of(row, run):
    """Return what one of `ROWS` measures."""
    warnings.simplefilter("ignore", KernelBoundWarning)  # as in scikit-learn, whose warnings are not shown
    run.rows = []
    with harness.pinned(run.threads):
        row(run)
    return run.rows


def make_data(n, m=None, seed=0):
    """Return n rows of 5 inputs that all matter, and one target or m of them with noises of their own."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, N_INPUTS))
    signal = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * X[:, 2] * X[:, 3]
    if m is None:
        return X, signal + 0.2 * rng.normal(size=n)
    return X, signal[:, None] + 0.2 * np.geomspace(0.7, 1.4, m) * rng.normal(size=(n, m))


def fixed_kernel(run):
    """Return the kernel of the common model with the length that learning finds on these data."""
    X, y = make_data(run.sizes["n"])
    length = float(ours(peers.kernel_of(N_INPUTS, ard=False)).fit(X, y).kernel_.length_scale)
    return peers.kernel_of(N_INPUTS, ard=False, fixed_length=length)


def fixed_row(run):
    """Fixed RBF, one output, both variances tuned."""
    X, y = make_data(run.sizes["n"])
    kernel = fixed_kernel(run)
    model = ours(kernel)
    seconds, timing, gpr = run.against(lambda: peers.fit_gpr(X, y, kernel), partial(model.fit, X, y))
    difference = model.log_marginal_likelihood_value_ - gpr.log_marginal_likelihood_value_
    run.add_learned("a", difference, seconds, timing, 9)
    timings = run.time({"ours": partial(model.fit, X, y), "unit": harness.one_cholesky(len(X))})
    value, spread = ratio(timings, "unit", "ours")
    run.add("a", "Cholesky units", 1 / value, 8, at_least=False, spread=invert(spread), unit="")


def outputs_row(run):
    """The same with 50 outputs and variances of their own."""
    X, Y = make_data(run.sizes["n"], m=50)
    kernel = fixed_kernel(run)
    joint, alone = ours(kernel), ours(kernel)
    timings = run.time({"fifty": partial(joint.fit, X, Y), "one": partial(alone.fit, X, Y[:, 0])})
    assert_not_worse(joint.tuning_[0].value, alone.log_marginal_likelihood_value_)
    value, spread = ratio(timings, "fifty", "one")
    run.add("b", "50 outputs / one", value, 1.25, at_least=False, spread=spread)


def learned_rows(run):
    """Learned kernels: isotropic and ARD."""
    X, y = make_data(run.sizes["n"])
    for row, ard, goal in (("c", False, 4.5), ("d", True, 20)):
        learned_row(run, row, X, y, peers.kernel_of(N_INPUTS, ard=ard), goal)


def learned_row(run, row, X, y, kernel, goal):
    """Time one learned kernel against GPR."""
    model, repeats = ours(kernel), SAMPLES_OF_FEW if len(X) <= max(SMALL) and not run.fast else None
    seconds, timing, gpr = run.against(lambda: peers.fit_gpr(X, y, kernel), partial(model.fit, X, y), repeats)
    difference = model.log_marginal_likelihood_value_ - gpr.log_marginal_likelihood_value_
    run.add_learned(row, difference, seconds, timing, goal)


def folds_row(run):
    """KernelSearchCV against GridSearchCV(KernelRidge): 10 gammas, 30 alphas, 5 folds."""
    search_row(run, "g", *make_data(run.sizes["search"]), goal=12)


def small_rows(run):
    """A learned RBF on few rows, of one data set and of several, and on one column of the diabetes data."""
    for n, goal in list(SMALL.items())[: 1 if run.fast else None]:
        X, y = make_data(n)
        learned_row(run, f"n = {n}", X, y, peers.kernel_of(N_INPUTS, ard=False), goal)
        many_fits(run, f"{DRAWS} fits of n = {n}", n, DRAWS, goal)
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:, :1] / X[:, :1].std(), (y - y.mean()) / y.std()
    learned_row(run, "diabetes, age", X, y, peers.kernel_of(1, ard=False), 2)


def many_fits_row(run):
    """Fits of 200 rows each, one after the other, and once more after a large array was freed."""
    count = run.sizes["fits"]
    many_fits(run, f"{count} fits of n = 200", 200, count, 4)
    _ = np.ones((2000, 2000))
    del _
    many_fits(run, "the same, large array freed", 200, count, None)


def many_fits(run, row, n, count, goal):
    """Time fits of n rows each, of as many data sets."""
    data = [make_data(n, seed=seed) for seed in range(count)]
    kernel = peers.kernel_of(N_INPUTS, ard=False)
    models = [ours(kernel) for _ in data]
    seconds, timing, fitted = run.against(
        lambda: [peers.fit_gpr(X, y, kernel) for X, y in data],
        lambda: [model.fit(X, y) for model, (X, y) in zip(models, data, strict=True)],
    )
    differences = [
        model.log_marginal_likelihood_value_ - gpr.log_marginal_likelihood_value_
        for model, gpr in zip(models, fitted, strict=True)
    ]
    run.add_learned(row, min(differences), seconds, timing, goal)


def selection_row(run):
    """SequentialFeatureSelector with our defaults, and with GPR and the same kind of kernel."""
    X, y = make_data(100)
    kernel = peers.kernel_of(1, ard=False)
    selectors = [
        SequentialFeatureSelector(each, n_features_to_select=2, cv=3)
        for each in (SpectralGPRegressor(), GaussianProcessRegressor(kernel, normalize_y=True))
    ]

    def select(selector):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return selector.fit(X, y)

    seconds, timing, _ = run.against(partial(select, selectors[1]), partial(select, selectors[0]))
    assert list(selectors[0].get_support()) == list(selectors[1].get_support())
    run.add("selection of 2 inputs", "GPR / ours", seconds / timing.median, 1, spread=over(seconds, timing))


def co2_row(run, path):
    """scikit-learn's example: a sum of four kernels on monthly means."""
    X, y = monthly_means(path)
    learned_row(run, "CO2", X, y - y.mean(), co2_kernel(), 2.5)


def co2_kernel():
    """Return the kernel of scikit-learn's example."""
    seasons = 2.0**2 * RBF(100.0) * ExpSineSquared(1.0, 1.0, periodicity_bounds="fixed")
    irregular = 0.5**2 * RationalQuadratic(length_scale=1.0, alpha=1.0)
    noise = 0.1**2 * RBF(0.1) + WhiteKernel(0.1**2, (1e-5, 1e5))
    return ConstantKernel(50.0**2) * RBF(50.0) + seasons + irregular + noise


def monthly_means(path):
    """Return years (n, 1) and means of CO2, a row for each month that has values."""
    table = np.genfromtxt(path, delimiter=",", skip_header=1, dtype=str)
    month = table[:, 0].astype("datetime64[M]").astype(int)
    value = np.array([float(text) if text else np.nan for text in table[:, 1]])
    month, value = month[np.isfinite(value)], value[np.isfinite(value)]
    months, where = np.unique(month, return_inverse=True)
    return (1970 + months / 12)[:, None], np.bincount(where, value) / np.bincount(where)


def draw(rows):
    """Return the chart of ratios beside their goals."""
    from matplotlib.figure import Figure

    rows = [row for row in rows if row["unit"] == "x" and row["at_least"] and row["goal"] is not None]
    rows = [row for row in rows if np.isfinite(row["value"])]
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    place = np.arange(len(rows))
    axes.barh(place, [row["value"] for row in rows], color="#0072B2", label="ratio to the peer")
    axes.plot([row["goal"] for row in rows], place, "|", color="#D55E00", markersize=14, label="goal")
    axes.set(yticks=place, yticklabels=[row["row"] for row in rows], xscale="log", xlabel="times faster")
    axes.invert_yaxis()
    axes.legend(frameon=False)
    return figure


ROWS = (fixed_row, outputs_row, learned_rows, folds_row, small_rows, many_fits_row, selection_row)


if __name__ == "__main__":
    main()
