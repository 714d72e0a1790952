"""What does one evaluation of score, Jacobian and Hessian cost, and does it grow linearly with n?

Section 3 of Schirru et al. (2011) times their criterion and its derivatives for n = 32 ... 8192 and
fits straight lines a + b n. The same is done here for that criterion ("posterior") and for the
evidence, for a single trial value per call and for a batch of them.

The sums run over n eigenvalues and n rotated targets whatever matrix those came from. Timings
therefore use a spectrum drawn directly (eigenvalues falling like i^-2) instead of decomposing an
8192 x 8192 matrix. Before timing, every function is checked: against dense linear algebra on a real
kernel matrix, and against the paper's formulas as printed at every n that is timed.

Run `python -m benchmarks.bench_identities`, or with `--fast` for a smoke run.
"""

import importlib.util
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from skspectral import Spectrum
from skspectral.criteria.evidence import evidence_gradient, evidence_hessian, neg_two_log_evidence
from skspectral.criteria.posterior import posterior_gradient, posterior_hessian, posterior_score
from skspectral.linalg.coordinates import Coordinates

from . import harness

# Microseconds for one evaluation, a + b n: eq. 41, 42 and the branch n > 1024 of 43.
PAPER = {"score": (42.26, 0.05), "Jacobian": (44.54, 0.086), "Hessian": (1347.81, 0.13)}
# The branch n <= 1024 of eq. 43.
PAPER_SMALL_HESSIAN = (64.04, 1.39)
# Microseconds per observation and trial value for a batched score at the largest n.
GOAL = 0.01

POSTERIOR = {"score": posterior_score, "Jacobian": posterior_gradient, "Hessian": posterior_hessian}
EVIDENCE = {"score": neg_two_log_evidence, "Jacobian": evidence_gradient, "Hessian": evidence_hessian}
CRITERIA = {"posterior": POSTERIOR, "evidence": EVIDENCE}


def main(argv=None):
    """Check, time, print, save."""
    options = harness.parse_arguments(__doc__, argv)
    sizes = (32, 512, 8192) if options.fast else tuple(2**i for i in range(5, 14))
    batch = 64 if options.fast else 512
    repeats = options.repeats or (3 if options.fast else 15)
    with harness.pinned(options.threads):
        record = {"environment": harness.environment(options.threads), "fast": options.fast}
        check_against_dense()
        measured = [measure(n, batch, repeats) for n in sizes]
        unit = unit_of_cost(options.fast, repeats)
    record |= {"batch": batch, "measured": measured, "unit": unit, "lines": fit_lines(measured)}
    report(record)
    harness.save("identities", record, draw(record))


# Correctness


def load_reference():
    """Return tests/reference.py, the naive definitions that import nothing of the package."""
    path = Path(__file__).parents[1] / "tests" / "reference.py"
    spec = importlib.util.spec_from_file_location("reference", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_against_dense(n=96):
    """Assert that both scores, and the derivatives of the evidence, equal their dense O(n^3) definitions."""
    reference = load_reference()
    rng = np.random.default_rng(n)
    X, y = rng.uniform(-2, 2, (n, 2)), rng.normal(size=n)
    K = reference.matern12(X)
    rotated = Spectrum.from_gram(K).rotate(y[:, None])
    for noise_var, signal_var in zip(*trial_values(5), strict=True):
        got = [f(rotated, noise_var, signal_var).squeeze() for f in EVIDENCE.values()]
        expected = [
            -2 * reference.log_evidence(K, y, noise_var, signal_var),
            *dense_evidence_derivatives(K, y, noise_var, signal_var),
        ]
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8 * np.abs(b).max())
        score = posterior_score(rotated, noise_var, signal_var)[0, 0]
        np.testing.assert_allclose(
            score, reference.posterior_predictive(K, y, noise_var, signal_var), rtol=1e-8
        )


def dense_evidence_derivatives(K, y, noise_var, signal_var):
    """Return gradient and Hessian of -2 log p(y) by (noise_var, signal_var), y ~ N(0, C).

    With C = signal_var K + noise_var I and D = (I, K): tr(C^-1 D_i) - a'D_i a and
    2 a'D_i C^-1 D_j a - tr(C^-1 D_i C^-1 D_j), where a = C^-1 y.
    """
    D = (np.eye(len(y)), K)
    C_inv = np.linalg.inv(signal_var * K + noise_var * D[0])
    a = C_inv @ y
    gradient = [np.trace(C_inv @ Di) - a @ Di @ a for Di in D]
    hessian = [[2 * a @ Di @ C_inv @ Dj @ a - np.trace(C_inv @ Di @ C_inv @ Dj) for Dj in D] for Di in D]
    return np.array(gradient), np.array(hessian)


def check_against_printed(rotated, noise_var, signal_var):
    """Assert that Propositions 2.1 to 2.3 as printed give the same at the first trial values."""
    printed = load_reference().posterior_printed
    y_tilde = rotated.y_tilde[:, 0] * rotated.scale[0]
    got = [f(rotated, noise_var[:3], signal_var[:3]) for f in POSTERIOR.values()]
    for k in range(3):
        expected = printed(rotated.s[:-1], y_tilde, noise_var[k], signal_var[k])
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a[k, 0], b, rtol=1e-7, atol=1e-7 * np.abs(b).max())


# Timing


def trial_values(k):
    """Return k pairs of variances, each over two decades around 1."""
    rng = np.random.default_rng(k)
    return np.exp(rng.uniform(-2.3, 2.3, (2, k)))


def drawn_rotated(n):
    """Return a `Rotated` of full rank n with eigenvalues n i^-2 and rotated targets N(0, 1)."""
    y_tilde = np.random.default_rng(n).normal(size=(n, 1))
    s = n * np.arange(n, 0.0, -1.0) ** -2.0
    template = Spectrum.from_factor(np.ones((n, 1))).rotate(y_tilde)
    return replace(
        template,
        s=np.append(s, 0.0),
        count=np.append(np.ones(n), 0.0),
        coordinates=Coordinates(y_tilde, np.zeros(1)),
        scale=np.ones(1),
        null_residual=np.zeros((1, 1)),
        spectrum=replace(template.spectrum, s=s),
    )


def measure(n, batch, repeats):
    """Return the timings of all functions at one n, single and batched, in microseconds."""
    rotated, (noise_var, signal_var) = drawn_rotated(n), trial_values(batch)
    check_against_printed(rotated, noise_var, signal_var)
    cases = {
        f"{criterion}/{quantity}": function
        for criterion, functions in CRITERIA.items()
        for quantity, function in functions.items()
    }
    single = {name: partial(f, rotated, noise_var[0], signal_var[0]) for name, f in cases.items()}
    batched = {name: partial(f, rotated, noise_var, signal_var) for name, f in cases.items()}
    return {
        "n": n,
        "single": _microseconds(harness.time_in_turn(single, 2 * repeats), 1),
        "batched": _microseconds(harness.time_in_turn(batched, repeats), n * batch),
    }


def _microseconds(timings, share):
    """Return medians and quartiles in microseconds per `share`-th part of a call."""
    scaled = {name: harness.Timing(timing.samples * 1e6 / share) for name, timing in timings.items()}
    return {name: timing.as_dict() for name, timing in scaled.items()}


def unit_of_cost(fast, repeats):
    """Return one Cholesky, what a trial value costs at least without the spectrum, beside one evidence."""
    n = 512 if fast else 2048
    noise_var, signal_var = trial_values(1)
    evaluate = partial(neg_two_log_evidence, drawn_rotated(n), noise_var, signal_var)
    cases = {"one_cholesky": harness.one_cholesky(n), "evidence": evaluate}
    return {"n": n} | _microseconds(harness.time_in_turn(cases, repeats), 1)


# Report


def fit_lines(measured):
    """Return a, b of a + b n for every single evaluation.

    Least squares on relative residuals: times span orders of magnitude, and plain least squares would
    let the largest n alone decide.
    """
    n = np.array([m["n"] for m in measured], dtype=float)
    lines = {}
    for name in measured[0]["single"]:
        t = np.array([m["single"][name]["median"] for m in measured])
        design = np.column_stack([1 / t, n / t])
        lines[name] = np.linalg.lstsq(design, np.ones_like(t))[0].tolist()
    return lines


def report(record):
    """Print all tables and the verdict on the goal."""
    measured = record["measured"]
    names = list(measured[0]["single"])
    header = ["n", *names]
    for kind, digits, title in (
        ("single", 1, "One evaluation, microseconds: median"),
        ("batched", 4, f"Batch of {record['batch']}, microseconds per observation and trial value: median"),
    ):
        rows = [[str(m["n"]), *(f"{m[kind][name]['median']:.{digits}f}" for name in names)] for m in measured]
        harness.print_table(title, header, rows)
    rows = [[name, _line(record["lines"][name]), _paper_line(name)] for name in names]
    harness.print_table(
        "Straight lines a + b n in microseconds (least squares on relative residuals)",
        ["evaluation", "here", "paper, its machine"],
        rows,
    )
    _report_unit(record["unit"])
    _report_goal(record)


def _line(coefficients):
    return "{:.2f} + {:.4f} n".format(*coefficients)


def _paper_line(name):
    criterion, quantity = name.split("/")
    if criterion != "posterior":
        return ""
    if quantity != "Hessian":
        return "{} + {} n".format(*PAPER[quantity])
    return "{} + {} n (n > 1024), {} + {} n below".format(*PAPER[quantity], *PAPER_SMALL_HESSIAN)


def _report_unit(unit):
    ratio = unit["one_cholesky"]["median"] / unit["evidence"]["median"]
    print(
        f"\nOne Cholesky at n = {unit['n']} costs as much as {ratio:,.0f} evaluations of the evidence there."
    )


def _report_goal(record):
    last = record["measured"][-1]
    score = last["batched"]["posterior/score"]
    record["goal"] = {
        "limit": GOAL,
        "value": score["median"],
        "verdict": harness.verdict(score["median"], GOAL),
    }
    print(
        f"Goal: batched score at n = {last['n']} at most {GOAL} microseconds per observation and value: "
        f"{score['median']:.4f} ({score['lower_quartile']:.4f} to {score['upper_quartile']:.4f}), "
        f"{record['goal']['verdict']}{' (smoke run)' if record['fast'] else ''}"
    )


# Chart: colour is the quantity (Okabe-Ito), line and marker are the source

COLOURS = {"score": "#0072B2", "Jacobian": "#D55E00", "Hessian": "#009E73"}
STYLES = {
    "posterior": {"linestyle": "-", "marker": "o"},
    "evidence": {"linestyle": ":", "marker": "s", "markerfacecolor": "white"},
}


def draw(record):
    """Return the figure: single evaluations beside the paper's lines, and batched ones with the goal."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.5, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    n = np.array([m["n"] for m in record["measured"]])
    for axes, kind in ((left, "single"), (right, "batched")):
        _draw_measured(axes, record["measured"], kind, n)
        axes.set(xscale="log", yscale="log", xlabel="observations n", xticks=n, xticklabels=n)
        axes.minorticks_off()
        axes.yaxis.set_major_formatter("{x:g}")
        axes.grid(alpha=0.25)
    for quantity, (a, b) in PAPER.items():
        domain = n[n > 1024] if quantity == "Hessian" else n
        left.plot(domain, a + b * domain, color=COLOURS[quantity], linestyle="--", linewidth=1)
    a, b = PAPER_SMALL_HESSIAN
    small = n[n <= 1024]
    left.plot(small, a + b * small, color=COLOURS["Hessian"], linestyle="--", linewidth=1)
    left.set(ylabel="microseconds per evaluation", title="One trial value per call")
    right.axhline(GOAL, color="black", linewidth=1)
    right.set(
        ylabel="microseconds per observation and trial value",
        title=f"{record['batch']} trial values per call",
    )
    figure.legend(handles=_legend_handles(), loc="outside lower center", ncols=4, frameon=False)
    return figure


def _draw_measured(axes, measured, kind, n):
    for name in measured[0][kind]:
        criterion, quantity = name.split("/")
        summary = [m[kind][name] for m in measured]
        low, median, high = (
            np.array([s[key] for s in summary]) for key in ("lower_quartile", "median", "upper_quartile")
        )
        axes.plot(n, median, color=COLOURS[quantity], markersize=4, linewidth=1.4, **STYLES[criterion])
        axes.fill_between(n, low, high, color=COLOURS[quantity], alpha=0.15, linewidth=0)


def _legend_handles():
    from matplotlib.lines import Line2D

    quantities = [Line2D([], [], color=colour, linewidth=4, label=name) for name, colour in COLOURS.items()]
    sources = [
        Line2D([], [], color="0.3", markersize=4, label=f"{name}, measured", **style)
        for name, style in STYLES.items()
    ]
    goal = Line2D([], [], color="black", linewidth=1, label="goal for the batched score")
    paper = Line2D([], [], color="0.3", linestyle="--", linewidth=1, label="posterior, the paper's fit")
    # the legend fills column by column: quantities in three columns, then sources below them
    first, second, third = quantities
    return [first, sources[0], second, sources[1], third, paper, goal]


if __name__ == "__main__":
    main()
