"""scikit-learn's own tests of three of its classes, run with ours in their places.

The test files of the installed scikit-learn are loaded a second time, with the functions of
sklearn_adapter.py instead of the classes. A test passes, or it is named in the tables there and fails in the
way that is written beside it: then it is reported as an expected failure, with its reason. A named test that
passes, or that fails in another way, is a failure.

Nothing is collected with scikit-learn before 1.9, or where its tests are not installed.
"""

import functools
import importlib.util
import inspect
import re
import sys
from unittest import mock

import pytest
import sklearn
import sklearn_adapter
from sklearn.utils.fixes import parse_version
from sklearn_adapter import DIFFERENCES, TO_FIX

# As where scikit-learn runs them; those that are about warnings look for them by themselves.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]

GPR = "sklearn.gaussian_process.tests.test_gpr"
RIDGE = "sklearn.tests.test_kernel_ridge"
SEARCH = "sklearn.model_selection.tests.test_search"


def _is_installed(file):
    folder = file.rpartition(".")[0]
    return all(importlib.util.find_spec(part) is not None for part in (folder, file))


def _own_tests(file, package, *names):
    """Return a class with the tests of a file that imports `names` from `package`."""
    module = _load(file, package, names)
    tests = {
        name: staticmethod(_passes_or_is_named(test))
        for name, test in vars(module).items()
        if name.startswith("test_") and test.__module__ == module.__name__
    }
    return type(f"Tests of {file}", (), tests)


def _load(file, package, names):
    """Return a copy of a module for which `package` has the adapter's `names`."""
    original = importlib.import_module(file)  # loads whatever else it imports, with the true classes
    spec = importlib.util.spec_from_file_location(f"ours_in_{file.replace('.', '_')}", original.__file__)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # where pickle looks for classes
    with mock.patch.multiple(package, **{name: getattr(sklearn_adapter, name) for name in names}):
        spec.loader.exec_module(module)
    return module


def _passes_or_is_named(test):
    """Return the test, of the same parameters and marks, that fails as the tables say or not at all."""

    @functools.wraps(test)
    def run(*, request, **arguments):
        rows = _rows_of(request.node.name)
        if not rows:
            return test(**arguments)
        (row,) = rows
        if row.failure is not None:
            _check_failure(row, test, arguments)
        pytest.xfail(row.reason)

    own = inspect.signature(test)
    request = inspect.Parameter("request", inspect.Parameter.KEYWORD_ONLY)
    run.__signature__ = own.replace(parameters=[*own.parameters.values(), request])
    # expected failures stand in our tables only
    run.pytestmark = [_ready(mark) for mark in getattr(test, "pytestmark", []) if mark.name != "xfail"]
    return run


def _rows_of(name):
    """Return the rows of the tables that name a test, "function" or "function[parameters]"."""
    function, _, parameters = name.removesuffix("]").partition("[")
    rows = (row for row in DIFFERENCES + TO_FIX if row.test == function)
    return [row for row in rows if re.search(row.parameters, parameters)]


def _check_failure(row, test, arguments):
    try:
        test(**arguments)
    except (Exception, pytest.fail.Exception) as failure:
        if not re.search(row.failure, f"{type(failure).__name__}: {failure}"):
            raise  # not the failure that is known
    else:
        pytest.fail(f"{row.test} passes, so that this row of its table is out of date: {row}")


def _ready(mark):
    """Return a mark whose values are a list: pytest warns of generators."""
    if mark.name != "parametrize":
        return mark
    names, values, *others = mark.args
    return pytest.mark.parametrize(names, list(values), *others, **mark.kwargs).mark


if parse_version(sklearn.__version__) >= parse_version("1.9") and all(
    map(_is_installed, (GPR, RIDGE, SEARCH))
):
    TestGaussianProcessRegressor = _own_tests(GPR, "sklearn.gaussian_process", "GaussianProcessRegressor")
    TestKernelRidge = _own_tests(RIDGE, "sklearn.kernel_ridge", "KernelRidge")
    TestSearch = _own_tests(SEARCH, "sklearn.model_selection", "GridSearchCV", "RandomizedSearchCV")

    @pytest.mark.parametrize("row", DIFFERENCES + TO_FIX, ids=lambda row: row.test)
    def test_a_named_test_exists(row, request):
        """With its parameters, where the test is part of this run."""
        classes = (TestGaussianProcessRegressor, TestKernelRidge, TestSearch)
        assert any(hasattr(tests, row.test) for tests in classes)
        here = [item for item in request.session.items if item.path == request.path]
        names = [item.name for item in here if getattr(item, "originalname", None) == row.test]
        assert not names or any(row in _rows_of(name) for name in names)
