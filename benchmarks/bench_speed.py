"""How fast are fits, searches and predictions, in units of one Cholesky and beside peers?

Rows a to i are the project's goals (2 cores, n = 2000 and 5 inputs unless said). The data have two
inputs that matter, noise of standard deviation 0.3, and the kernel is an RBF: started at length 1
where it is learned, and fixed at the length that learning finds where it is fixed. All models have no
intercept, so that likelihoods can be compared; every comparison asserts equal accuracy first. The row
"a, rough" has a length scale so short that no low rank helps: the cost of the dense route.

Peers are warmed up and repeated as we are; the 50 separate GPR fits of row b are timed on two and multiplied.
What the same rows give on data of which all inputs matter is in `bench_ordinary`.

Run `python -m benchmarks.bench_speed` (all rows: about 20 minutes), or with `--fast` for a smoke run.
"""

import subprocess
import sys
import textwrap
import warnings
from functools import partial

import numpy as np
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV

from skspectral import KernelBoundWarning, KernelSearchCV, SpectralGPRegressor, SpectralKernelRidge

from . import harness, peers

N_INPUTS = 5
NOISE = 0.3
ROUGH_LENGTH = 1.0
# What a log likelihood may be below another and still count as equal.
NEGLIGIBLE = 0.01
# What an R^2 at new rows may be below another and still count as equal.
NEGLIGIBLE_R2 = 0.005


def main(argv=None):
    """Check, time, print, save."""
    options = harness.parse_arguments(__doc__, argv)
    sizes = {"n": 300, "large": 400, "search": 100, "new": 500}
    sizes |= {"growth_a": (100, 200), "growth_rough": (100, 200), "growth_c": (100, 200)}
    if not options.fast:
        to_4000 = (500, 1000, 2000, 4000)
        sizes = {"n": 2000, "large": 4000, "search": 1000, "new": 10_000}
        sizes |= {"growth_a": (*to_4000, 8000), "growth_rough": to_4000, "growth_c": to_4000}
    repeats = options.repeats or (1 if options.fast else 3)
    missing = peers.missing_peers()
    if missing:
        print(f"Notice: left out, not installed: {', '.join(missing)}")
    warnings.simplefilter("ignore", KernelBoundWarning)  # inputs that do not matter end at the bound
    with harness.pinned(options.threads):
        run = Run(sizes, repeats, options.threads, set(missing), options.fast)
        record = {"environment": harness.environment(options.threads), "fast": options.fast, "sizes": sizes}
        for row in (row_a, row_b, row_c_to_f, row_g, row_h, row_i):
            row(run)
        growth = measure_growth(run)
    report(run)
    record |= {"rows": run.rows, "growth": growth}
    harness.save("speed", record, draw(growth))


class Run:
    """What the rows share: sizes, data, and the table they fill."""

    def __init__(self, sizes, repeats, threads, missing, fast):
        self.sizes, self.repeats, self.threads, self.missing, self.fast = (
            sizes,
            repeats,
            threads,
            missing,
            fast,
        )
        self.rows = []

    def time(self, cases, repeats=None):
        """Time cases in turn, each warmed up."""
        return harness.time_in_turn(cases, repeats or self.repeats)

    def against(self, peer, ours, repeats=None):
        """Time a peer and us in turn; return their median seconds, our timing, and what the peer returned."""
        seen = []
        timings = self.time({"peer": lambda: seen.append(peer()), "ours": ours}, repeats)
        return timings["peer"].median, timings["ours"], seen[-1]

    def add_learned(self, row, difference, peer_seconds, timing, goal, *, what="GPR / ours"):
        """Record how far the log likelihood is from the peer's, and the ratio where it is not below it."""
        self.add(row, "log likelihood - peer's", difference, -NEGLIGIBLE, unit="")
        is_equal = difference >= -NEGLIGIBLE
        spread = over(peer_seconds, timing) if is_equal else None
        self.add(row, what, peer_seconds / timing.median if is_equal else np.nan, goal, spread=spread)

    def add(self, row, what, value, goal=None, *, at_least=True, spread=None, unit="x"):
        """Record one number of the table with its goal."""
        settings = {"at_least": at_least, "unit": unit, "spread": spread}
        self.rows.append(harness.entry(row, what, value, goal, **settings))
        print(".", end="", flush=True)


def make_data(n, m=None, seed=0):
    """Return n rows of 5 inputs, of which 2 matter, and one target or m of them with noises of their own."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, N_INPUTS))
    phase = 0.0 if m is None else 0.1 * np.arange(m)
    signal = np.sin(1.5 * X[:, :1] + phase) + 0.5 * X[:, 1:2] ** 2
    noise = NOISE if m is None else NOISE * np.geomspace(0.7, 1.4, m)
    Y = signal + noise * rng.normal(size=signal.shape)
    return X, (Y[:, 0] if m is None else Y)


def ours(kernel, **params):
    """Return our estimator without intercept, as the peers have none."""
    return SpectralGPRegressor(kernel, fit_intercept=False, **params)


def found_length(run):
    """Return the isotropic length scale that learning finds on these data."""
    X, y = make_data(run.sizes["n"])
    return float(ours(peers.kernel_of(N_INPUTS, ard=False)).fit(X, y).kernel_.length_scale)


def ratio(timings, slow, fast):
    """Return the ratio of medians and the quartiles of the faster one as a spread of it."""
    low, high = timings[fast].quartiles
    value = timings[slow].median / timings[fast].median
    return value, (timings[slow].median / high, timings[slow].median / low)


def row_a(run):
    """Fixed RBF, one output, both variances tuned."""
    X, y = make_data(run.sizes["n"])
    run.length = found_length(run)
    kernel = peers.kernel_of(N_INPUTS, ard=False, fixed_length=run.length)
    model = ours(kernel)
    gpr_seconds, _, gpr = run.against(lambda: peers.fit_gpr(X, y, kernel), partial(model.fit, X, y))
    assert_not_worse(model.log_marginal_likelihood_value_, gpr.log_marginal_likelihood_value_)
    rough = ours(RBF(ROUGH_LENGTH), optimizer=None)
    cases = {"ours": partial(model.fit, X, y), "rough": partial(rough.fit, X, y)}
    timings = run.time(cases | {"unit": harness.one_cholesky(len(X))})
    run.seconds_a = timings["ours"].median
    value, spread = ratio(timings, "unit", "ours")
    run.add("a", "Cholesky units", 1 / value, 6, at_least=False, spread=invert(spread), unit="")
    run.add("a", "GPR / ours", gpr_seconds / timings["ours"].median, 15)
    value, spread = ratio(timings, "unit", "rough")
    run.add("a, rough", "Cholesky units", 1 / value, spread=invert(spread), unit="")


def row_b(run):
    """The same with 50 outputs and variances of their own."""
    X, Y = make_data(run.sizes["n"], m=50)
    kernel = peers.kernel_of(N_INPUTS, ard=False, fixed_length=run.length)
    model = ours(kernel)
    two_seconds, _, two = run.against(
        lambda: [peers.fit_gpr(X, Y[:, j], kernel) for j in (0, 49)], partial(model.fit, X, Y)
    )
    joint = model
    for j, gpr in zip((0, 49), two, strict=True):
        assert_not_worse(joint.tuning_[j].value, gpr.log_marginal_likelihood_value_)
    timings = run.time({"fifty": partial(model.fit, X, Y), "one": partial(model.fit, X, Y[:, 0])})
    value, spread = ratio(timings, "fifty", "one")
    run.add("b", "50 outputs / one", value, 1.25, at_least=False, spread=spread)
    run.add("b", "MultiOutput(GPR) / ours", 25 * two_seconds / timings["fifty"].median, 400)
    if "himalaya" not in run.missing:
        gamma = 0.5 / run.length**2
        seconds, timing, himalaya = run.against(
            lambda: peers.fit_himalaya(X, Y, gamma), partial(model.fit, X, Y)
        )
        X_new, Y_new = make_data(run.sizes["n"], m=50, seed=1)
        reached, best = (r2_score(Y_new, each.predict(X_new)) for each in (model, himalaya))
        assert reached >= best - NEGLIGIBLE_R2, (reached, best)
        run.add("b", "himalaya / ours", seconds / timing.median, 3, spread=over(seconds, timing))


def row_c_to_f(run):
    """Learned kernels: isotropic, ARD, ARD on more rows, several outputs."""
    X, y = make_data(run.sizes["n"])
    isotropic = learned_row(run, "c", X, y, ard=False, gpr_goal=5, torch_goal=3)
    learned_row(run, "d", X, y, ard=True, gpr_goal=12, torch_goal=5)
    X_large, y_large = make_data(run.sizes["large"])
    learned_row(run, "e", X_large, y_large, ard=True, gpr_goal=25, torch_goal=None)
    X, Y = make_data(run.sizes["n"], m=10)
    model = ours(peers.kernel_of(N_INPUTS, ard=False))
    timings = run.time({"ten": partial(model.fit, X, Y)})
    run.add("f", "10 outputs / one", timings["ten"].median / isotropic, 2, at_least=False)


def learned_row(run, row, X, y, *, ard, gpr_goal, torch_goal):
    """Time one learned kernel against its peers and return our seconds."""
    kernel = peers.kernel_of(N_INPUTS, ard=ard)
    model = ours(kernel)
    gpr_seconds, timing, gpr = run.against(lambda: peers.fit_gpr(X, y, kernel), partial(model.fit, X, y))
    reached = model.log_marginal_likelihood_value_
    run.add_learned(row, reached - gpr.log_marginal_likelihood_value_, gpr_seconds, timing, gpr_goal)
    if torch_goal is not None and not run.missing & {"torch", "gpytorch"}:
        torch_seconds, timing, value = run.against(
            lambda: peers.fit_gpytorch(X, y, ard=ard, threads=run.threads), partial(model.fit, X, y)
        )
        run.add_learned(row, reached - value, torch_seconds, timing, torch_goal, what="GPyTorch / ours")
    return timing.median


def row_g(run):
    """KernelSearchCV against GridSearchCV(KernelRidge): 10 gammas, 30 alphas, 5 folds."""
    search_row(run, "g", *make_data(run.sizes["search"]), goal=15)


def search_row(run, row, X, y, goal):
    """Time a search with folds against GridSearchCV, after their scores were found equal."""
    n_gammas, n_alphas = (2, 3) if run.fast else (10, 30)
    grid = {"gamma": np.logspace(-3, 0, n_gammas), "alpha": np.logspace(-3, 2, n_alphas)}
    search = KernelSearchCV(SpectralKernelRidge(fit_intercept=False), grid, cv=5)
    theirs = GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=5)
    seconds, timing, _ = run.against(lambda: theirs.fit(X, y), partial(search.fit, X, y))
    scores = [each.cv_results_["mean_test_score"] for each in (search, theirs)]
    np.testing.assert_allclose(*scores, rtol=0, atol=1e-8)
    run.add(row, "GridSearchCV / ours", seconds / timing.median, goal, spread=over(seconds, timing))


def row_h(run):
    """Predictions at many new points: the mean, and the mean with standard deviations."""
    X, y = make_data(run.sizes["n"])
    X_new = make_data(run.sizes["new"], seed=1)[0]
    model = ours(RBF(run.length), optimizer=None).fit(X, y)
    gpr = model.to_sklearn()
    for std in (False, True):
        near = [np.array(m.predict(X_new[:200], return_std=std)) for m in (model, gpr)]
        np.testing.assert_allclose(*near, rtol=0, atol=1e-3)
        cases = {"ours": model, "GPR": gpr}
        timings = run.time({k: partial(m.predict, X_new, return_std=std) for k, m in cases.items()})
        value, spread = ratio(timings, "GPR", "ours")
        run.add(
            "h", "mean+std: GPR / ours" if std else "mean: GPR / ours", value, 2 if std else 1, spread=spread
        )


def row_i(run):
    """Peak memory of fits, in n^2 doubles above the start, measured in processes of their own."""
    n = run.sizes["large"]
    for what, model, goal in (
        ("fixed kernel, exact", 'RBF(1.0), optimizer=None, method="exact"', 3.5),
        ("fixed kernel, auto", "RBF(5.0), optimizer=None", 3.5),
        ("learned ARD", "RBF(np.ones(5))", 5),
    ):
        run.add("i", what, peak_memory(n, model), goal, at_least=False, unit=" n^2")


def peak_memory(n, model):
    """Return the growth of the resident peak during a fit, in n^2 doubles."""
    script = textwrap.dedent(f"""
        import warnings
        import numpy as np
        from sklearn.gaussian_process.kernels import RBF
        from skspectral import SpectralGPRegressor
        from benchmarks.bench_scale import peak_bytes
        from benchmarks.bench_speed import make_data
        warnings.simplefilter("ignore")
        X, y = make_data({n})
        SpectralGPRegressor(optimizer=None).fit(X[:50], y[:50])
        before = peak_bytes()
        SpectralGPRegressor({model}).fit(X, y)
        print(peak_bytes() - before)
    """)
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return int(out.stdout) / (8.0 * n**2)


def measure_growth(run):
    """Return median seconds of fits a and c for growing n, with the fitted exponents."""
    growth = {}
    fixed, learned = ours(RBF(run.length), optimizer=None), ours(peers.kernel_of(N_INPUTS, ard=False))
    rough = ours(RBF(ROUGH_LENGTH), optimizer=None)
    cases = {"a": (fixed, "growth_a"), "a, rough": (rough, "growth_rough"), "c": (learned, "growth_c")}
    for name, (model, sizes) in cases.items():
        n = run.sizes[sizes]
        seconds = []
        for size in n:
            X, y = make_data(size)
            seconds.append(run.time({"": partial(model.fit, X, y)}, repeats=1)[""].median)
        exponent = float(np.polyfit(np.log(n), np.log(seconds), 1)[0])
        growth[name] = {"n": n, "seconds": seconds, "exponent": exponent}
    return growth


def assert_not_worse(ours_value, peer_value):
    """Assert that our log likelihood is not below the peer's: speed counts only then."""
    assert ours_value >= peer_value - NEGLIGIBLE, (ours_value, peer_value)


def over(seconds, timing):
    """Return the spread of a peer's seconds over our quartiles."""
    low, high = timing.quartiles
    return seconds / high, seconds / low


def invert(spread):
    return 1 / spread[1], 1 / spread[0]


def report(run, title="Speed"):
    """Print the table."""
    note = " (smoke run: no measurement)" if run.fast else ""
    harness.print_entries(f"{title} at n = {run.sizes['n']}{note}", run.rows)


def draw(growth):
    """Return the chart of growth."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    styles = {"a": ("#0072B2", "o"), "a, rough": ("#D55E00", "s"), "c": ("#009E73", "^")}
    for name, (colour, marker) in styles.items():
        label = f"{name}: exponent {growth[name]['exponent']:.2f}"
        axes.loglog(growth[name]["n"], growth[name]["seconds"], color=colour, marker=marker, label=label)
    axes.set(xlabel="rows n", ylabel="seconds of a fit", title="Fits against the number of rows")
    axes.grid(alpha=0.25, which="both")
    axes.legend(frameon=False)
    return figure


if __name__ == "__main__":
    main()
