"""The house: who may import whom, who may factorise, and what the public sees."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import skspectral

PACKAGE = Path(skspectral.__file__).parent
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")

# Each room may import only rooms before it, and the two that serve everyone.
ROOMS = [
    "kernel_algebra",
    "gram",
    "kernel_parts",
    "rows",
    "reflectors",
    "spectrum",
    "resolvent",
    "factors",
    "greedy",
    "criteria",
    "tuning",
    "descent",
    "variances",
    "solution",
    "uncertainty",
    "averaging",
    "variance_methods",
    "conversion",
    "priors",
    "low_rank",
    "factor_terms",
    "predictive",
    "objectives",
    "learning",
    "sharing",
    "kernel_ridge",
    "gaussian_process",
    "search",
    "streaming",
    "metrics",
    "datasets",
    "displays",
]
FOR_EVERYONE = ["exceptions", "progress", "threads", "validation"]
FACTORISING = {"rows", "reflectors", "spectrum", "resolvent", "factors", "greedy", "low_rank", "streaming"}
FACTORISING |= {"factor_terms"}
FACTORISING |= {"descent"}  # solves with its own curvature, as small as theta
FACTORISATIONS = {"eigh", "eig", "eigvalsh", "eigvals", "svd", "svdvals", "cholesky", "cho_factor"}
FACTORISATIONS |= {"qr", "lu", "lu_factor", "ldl", "inv", "pinv", "solve", "lstsq", "eigh_tridiagonal"}
UNKNOWN_TO = {
    "gram": {"scipy.linalg"},
    "spectrum": {"sklearn"},
    "factors": {"sklearn"},
    "greedy": {"sklearn"},
    "criteria": {"sklearn", "scipy.optimize", "scipy.linalg", "warnings", "random", "numpy.random"},
    "tuning": {"sklearn"},
    "kernel_ridge": {"matplotlib", "scipy"},
    "gaussian_process": {"matplotlib"},
}

PUBLIC = {
    "CalibrationDisplay",
    "DegenerateCriterionWarning",
    "EvidenceDisplay",
    "EvidenceSurfaceDisplay",
    "FeatureStatistics",
    "IndefiniteKernelError",
    "KernelBoundWarning",
    "KernelSearchCV",
    "KernelSearchDisplay",
    "LowRankWarning",
    "PredictionBandDisplay",
    "RankDeficientBasisWarning",
    "RepeatedObservationsWarning",
    "SpectralGPRegressor",
    "SpectralKernelRidge",
    "Spectrum",
    "StreamingSpectralRegressor",
    "SpectrumDisplay",
    "TuningResult",
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
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


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
    """Return the rooms of the house that a module imports, its own excepted."""
    ours = [name.split(".") for name in imported(path) if name.split(".")[0] == skspectral.__name__]
    return {parts[1] for parts in ours if len(parts) > 1} - {room_of(path)}


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
def test_every_module_belongs_to_a_known_room(path):
    assert room_of(path) in ROOMS + FOR_EVERYONE


@each_module
def test_rooms_use_only_rooms_before_them(path):
    room = room_of(path)
    allowed = [] if room in FOR_EVERYONE else ROOMS[: ROOMS.index(room)]
    assert rooms_used(path) <= {*allowed, *FOR_EVERYONE}


@each_module
def test_only_rooms_of_linear_algebra_factorise(path):
    reached = {
        name.rpartition(".")[2] for name in imported(path) if ".linalg" in name
    } | called_factorisations(path)
    if room_of(path) not in FACTORISING:
        assert not reached & (FACTORISATIONS | {"linalg", "lapack"})


@each_module
def test_rooms_do_not_know_what_they_must_not(path):
    forbidden = UNKNOWN_TO.get(room_of(path), set())
    assert not {
        (name, outside)
        for name in imported(path)
        for outside in forbidden
        if f"{name}.".startswith(f"{outside}.")
    }


def test_the_walk_sees_what_is_there():
    assert {"exceptions"} <= rooms_used(PACKAGE / "spectrum.py")
    assert "criteria" in rooms_used(PACKAGE / "solution.py")
    assert "scipy.linalg.eigh" in imported(PACKAGE / "spectrum.py")
    assert "skspectral.criteria.form.Terms" in imported(PACKAGE / "criteria" / "gcv.py")


def test_importing_the_package_imports_no_optional_dependency():
    code = "import sys, skspectral; print(*(m for m in ('matplotlib', 'dask') if m in sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


def test_the_public_names_are_these():
    assert set(skspectral.__all__) == PUBLIC
    assert len(skspectral.__all__) == len(PUBLIC)
    assert all(hasattr(skspectral, name) for name in PUBLIC)
