"""The house: who may import whom, who may factorise, and what the public sees."""

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import skspectral

PACKAGE = Path(skspectral.__file__).parent
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")

# Floors, bottom first, with their rooms in order: a room imports only rooms before it on its floor and floors
# below. `support` serves everyone.
FLOORS = {
    "support": [
        "exceptions",
        "types",
        "atomic",
        "intervals",
        "memory",
        "pickling",
        "pipelines",
        "progress",
        "shapes",
        "threads",
        "validation",
    ],
    "kernels": [
        "parameters",
        "stationary",
        "algebra",
        "pairs",
        "attached",
        "derivative_products",
        "slopes",
        "composable",
        "columns",
        "functions",
        "scaled",
        "sets",
        "set_means",
        "categories",
        "gram",
        "gammas",
        "parts",
    ],
    "linalg": [
        "rows",
        "entries",
        "output_basis",
        "covariance_pair",
        "quadratic",
        "coordinates",
        "rotated",
        "shifted",
        "pieces",
        "reduced",
        "reflectors",
        "projection",
        "indefinite",
        "spectrum",
        "tridiagonal",
        "held_out",
        "slopes",
        "moments",
        "resolvent",
        "stack",
        "factors",
        "greedy",
        "factor_terms",
        "landmark_sums",
        "sensitivity",
        "curved",
        "coupled",
        "softmax_curved",
        "constants",
        "members",
        "active",
        "growth",
        "dictionary",
        "unpenalised",
    ],
    "likelihoods": [
        "arguments",
        "quadrature",
        "protocol",
        "location_scale",
        "gaussian",
        "student_t",
        "laplace",
        "huber",
        "poisson",
        "bernoulli",
        "softmax",
        "categorical",
    ],
    "criteria": ["form", "evidence", "joint_evidence", "lower_bound", "posterior", "gcv", "leave_one_out"],
    "inference": [
        "tuning",
        "variances",
        "tuned",
        "solution",
        "covariances",
        "correlated",
        "entries",
        "uncertainty",
        "student_mixture",
        "averaging",
        "mean_summary",
        "jackknife",
        "variance_form",
        "observations",
        "modes",
        "approximate",
        "nearest",
        "weighted_mean",
        "changing_noise",
        "sparse_noise",
        "sparse_newton",
        "sparse",
        "candidates",
        "sparse_classes",
        "absolute",
    ],
    "decomposition": ["data", "plan", "certificate", "decompose"],
    "learning": [
        "descent",
        "priors",
        "task",
        "step_factors",
        "evaluation",
        "objectives",
        "patterns",
        "user_path",
        "exploration",
        "scan",
        "valleys",
        "landmarks",
        "moving",
        "landmark_descent",
        "levels",
        "latent_task",
        "latent_objective",
        "latent_path",
        "noise_task",
        "latent",
        "design",
    ],
    "models": [
        "bounds",
        "conversion",
        "prior",
        "mean_functions",
        "fitted",
        "parts",
        "fitted_entries",
        "correlation_methods",
        "penalties",
        "siblings",
        "ensemble",
        "input_slopes",
        "additive_parts",
        "variance_methods",
        "scoring",
        "by_name",
        "predictive_methods",
        "kernel_ridge",
        "process_fitting",
        "gaussian_process",
        "latent",
        "classifier",
        "generalized",
        "heteroscedastic",
        "expansion",
        "sparse_expansion",
        "relevance",
        "relevance_classifier",
        "laplacian",
    ],
    "streaming": ["statistics", "features", "learning", "model", "blocks", "regressor"],
    "search": ["criterion", "scoring", "fold", "evaluation", "kernel_search"],
    "metrics": [],
    "datasets": [],
    "displays": ["canvas", "view"],
}
ORDER = [(floor, room) for floor, rooms in FLOORS.items() for room in (*rooms, None)]
FACTORISING = {"linalg"}
FACTORISATIONS = {"eigh", "eig", "eigvalsh", "eigvals", "svd", "svdvals", "cholesky", "cho_factor"}
FACTORISATIONS |= {"qr", "lu", "lu_factor", "ldl", "inv", "pinv", "solve", "lstsq", "eigh_tridiagonal"}
FACTORISATIONS |= {"spotrf", "spotri", "strtrs"}
FACTORISATIONS |= {
    "solve_triangular",
    "dpotrf",
    "dpotri",
    "dpstrf",
    "dgeqrt",
    "dsytrd",
    "dsterf",
    "dstevd",
    "dtrtri",
}
# solves with its own curvature, as small as theta
MAY_FACTORISE = {("learning", "descent")}
UNKNOWN_TO = {
    "kernels": {"scipy.linalg", "scipy.optimize"},
    "linalg": {"sklearn", "scipy.optimize"},
    "likelihoods": {"sklearn", "scipy.linalg", "scipy.optimize"},
    "criteria": {"sklearn", "scipy.optimize", "scipy.linalg", "warnings", "random", "numpy.random"},
    "inference": {"sklearn", "scipy.linalg"},
    "models": {"matplotlib", "scipy"},
    "search": {"scipy", "matplotlib"},
    "streaming": {"scipy", "matplotlib"},
    "displays": {"scipy.linalg", "scipy.optimize"},
}

PUBLIC = {
    "AdditivePartsDisplay",
    "CalibrationDisplay",
    "CorrelationDisplay",
    "CovarianceResult",
    "DegenerateCriterionWarning",
    "EvidenceDisplay",
    "EvidenceSurfaceDisplay",
    "FeatureStatistics",
    "GeneralizedGPRegressor",
    "HeteroscedasticGPRegressor",
    "IndefiniteKernelError",
    "IndefiniteKernelWarning",
    "KernelBoundWarning",
    "KernelPosterior",
    "KernelSearchCV",
    "KernelSearchDisplay",
    "LaplacianProcessRegressor",
    "LowRankWarning",
    "MeanSummary",
    "NoiseResolutionWarning",
    "OutputCorrelations",
    "PredictionBandDisplay",
    "RankDeficientBasisWarning",
    "RelevanceVectorClassifier",
    "RelevanceVectorRegressor",
    "SpectralGPClassifier",
    "Repair",
    "SpectralGPRegressor",
    "SpectralKernelRidge",
    "Spectrum",
    "StreamingSpectralRegressor",
    "SpectrumDisplay",
    "TuningResult",
    "UndeterminedVarianceWarning",
    "VariancePosterior",
    "VarianceUncertainty",
    "__version__",
    "interval_coverage",
    "interval_coverage_scorer",
    "load_motorcycle",
    "make_predictive_scorer",
    "mean_crps",
    "mean_interval_width",
    "mean_log_loss",
    "mean_standardized_log_loss",
    "neg_mean_crps",
    "neg_mean_interval_width",
    "neg_mean_log_loss",
    "neg_mean_standardized_log_loss",
}


def room_of(path):
    """Return (floor, room) of a module; the room is None for a floor of one file and for a front page."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[0], None if len(parts) == 1 or parts[1] == "__init__" else parts[1]


def place(floor, room):
    """Return how high a room lies; rooms that are not listed lie side by side, above the listed ones."""
    return ORDER.index((floor, room if room in FLOORS[floor] else None))


def imported(path):
    """Return the absolute dotted names that a module imports anywhere, also inside functions."""
    package = [skspectral.__name__, *path.relative_to(PACKAGE).parts[:-1]]
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*start, *filter(None, [node.module])])
            names.update(f"{base}.{alias.name}" for alias in node.names)
    return names


def rooms_used(path):
    """Return the (floor, room) pairs that a module imports, its own excepted."""
    ours = [name.split(".")[1:] for name in imported(path) if name.split(".")[0] == skspectral.__name__]
    pairs = {(p[0], p[1] if len(p) > 1 and _is_room(p[0], p[1]) else None) for p in ours if p}
    return pairs - {room_of(path)}


def _is_room(floor, name):
    return (PACKAGE / floor / f"{name}.py").exists()


def called_factorisations(path):
    """Return factorisations reached as attributes, such as np.linalg.svd."""
    return {
        node.attr
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr in FACTORISATIONS
        and isinstance(node.value, ast.Attribute | ast.Name)
        and (node.value.attr if isinstance(node.value, ast.Attribute) else node.value.id)
        in ("linalg", "lapack")
    }


each_module = pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))


@each_module
def test_every_module_belongs_to_a_known_floor(path):
    assert room_of(path)[0] in FLOORS


@each_module
def test_rooms_use_only_rooms_and_floors_below_them(path):
    floor, room = room_of(path)
    used = rooms_used(path)
    if room is None and (PACKAGE / floor).is_dir():  # the front page of a floor shows its own rooms
        used = {pair for pair in used if pair[0] != floor}
    too_high = {pair for pair in used if place(*pair) >= place(floor, room)}
    if room not in FLOORS[floor] and room is not None:
        too_high = {pair for pair in too_high if pair[0] != floor or pair[1] is None}
    assert not too_high


@each_module
def test_only_linear_algebra_factorises(path):
    reached = {
        name.rpartition(".")[2] for name in imported(path) if ".linalg" in name and "skspectral" not in name
    } | called_factorisations(path)
    if room_of(path)[0] not in FACTORISING and room_of(path) not in MAY_FACTORISE:
        assert not reached & (FACTORISATIONS | {"linalg", "lapack"})


@each_module
def test_floors_do_not_know_what_they_must_not(path):
    forbidden = UNKNOWN_TO.get(room_of(path)[0], set())
    assert not {
        (name, outside)
        for name in imported(path)
        for outside in forbidden
        if f"{name}.".startswith(f"{outside}.")
    }


def test_the_walk_sees_what_is_there():
    assert ("support", "exceptions") in rooms_used(PACKAGE / "linalg" / "spectrum.py")
    assert ("linalg", "rows") in rooms_used(PACKAGE / "linalg" / "spectrum.py")
    assert ("criteria", None) in rooms_used(PACKAGE / "inference" / "tuned.py")
    assert "scipy.linalg.eigh" in imported(PACKAGE / "linalg" / "reflectors.py")
    assert "skspectral.criteria.form.Terms" in imported(PACKAGE / "criteria" / "gcv.py")
    assert place("linalg", "spectrum") > place("linalg", "rows") > place("kernels", "gram")


def modules_after(code):
    """Return the names of all modules that a fresh interpreter has loaded after some code."""
    show = f"{code}; import sys; print(*sys.modules)"
    return set(
        subprocess.run(
            [sys.executable, "-c", show], capture_output=True, text=True, check=True
        ).stdout.split()
    )


def test_importing_all_of_the_package_imports_no_optional_dependency():
    scikit_learns_own = modules_after(
        "import sklearn.gaussian_process, sklearn.kernel_ridge, sklearn.pipeline"
    )
    loaded = modules_after("from skspectral import *")
    assert "skspectral.displays.canvas" in loaded
    assert not (loaded - scikit_learns_own) & {
        "matplotlib",
        "dask",
        "distributed",
        "pandas",
        "polars",
        "rich",
    }


def test_names_are_imported_when_they_are_asked_for():
    assert {name for name in modules_after("import skspectral") if name.startswith("skspectral.")} == set()
    assert "numpy" not in modules_after("import skspectral")
    regressor = modules_after("from skspectral import SpectralGPRegressor")
    idle = ("skspectral.displays", "skspectral.streaming", "skspectral.search", "skspectral.metrics")
    assert not {name for name in regressor if name.startswith(idle)}


def test_type_checkers_and_users_find_names_in_the_same_places():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    checked = next(node for node in tree.body if isinstance(node, ast.If)).body
    seen = {
        alias.name: node.module
        for node in checked
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == skspectral._HOME_OF
    assert {*seen, "__version__"} == PUBLIC


def test_floors_are_attributes_and_other_names_are_not():
    code = "import skspectral; skspectral.kernels.Columns; skspectral.likelihoods.Poisson; dir(skspectral)"
    assert "skspectral.likelihoods.poisson" in modules_after(code)
    assert set(dir(skspectral)) >= PUBLIC
    assert set(FLOORS) <= set(dir(skspectral))
    with pytest.raises(AttributeError, match="module 'skspectral' has no attribute 'nothing'"):
        skspectral.nothing  # noqa: B018


def test_the_public_names_are_these():
    assert set(skspectral.__all__) == PUBLIC
    assert len(skspectral.__all__) == len(PUBLIC)
    assert all(hasattr(skspectral, name) for name in PUBLIC)


def functions_of(path):
    """Yield the name and the number of lines of every function body, docstring left out."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            if body:
                yield node.name, body[-1].end_lineno - body[0].lineno + 1


def lines_without_docstrings(path):
    """Return the lines of a module that hold code or comments."""
    text = path.read_text()
    tree = ast.parse(text)
    documented = [n for n in ast.walk(tree) if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef)]
    strings = [n.body[0] for n in documented if ast.get_docstring(n)]
    return len(text.splitlines()) - sum(s.end_lineno - s.lineno + 1 for s in strings)


def test_functions_are_small():
    sizes = {f"{path}:{name}": size for path in MODULES for name, size in functions_of(path)}
    assert np.median(list(sizes.values())) <= 6
    assert not {name: size for name, size in sizes.items() if size > 40}


def test_files_fit_in_the_head():
    crowded = {path: lines_without_docstrings(path) for path in MODULES}
    assert not {path: size for path, size in crowded.items() if size > 400}


@pytest.mark.parametrize("path", sorted(Path(__file__).parent.glob("test_*.py")), ids=lambda path: path.stem)
def test_comparisons_are_asserted(path):
    """A call of `close` that stands alone compares and forgets."""
    calls = [n.value for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Expr)]
    names = [ast.unparse(call.func) for call in calls if isinstance(call, ast.Call)]
    assert not {"close", "np.allclose", "np.isclose", "np.array_equal"} & set(names)
