"""The tool that mutates: every operator makes valid and different code, and a seed always the same sample."""

import ast
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from mutation.__main__ import final, is_open, packed, unpacked
from mutation.calls import Calls
from mutation.choice import FileOfTests, batches, names_of_tests
from mutation.forks import OUT_OF_TIME, is_in_functions, limited, renewed_codes
from mutation.operators import OPERATORS, Source
from mutation.report import HARMLESS, read_harmless, summary, why_harmless
from mutation.sample import Mutant, draw, every, make_mutant, sites
from mutation.workshop import last_test

ROOT = Path(__file__).resolve().parents[1]

TEXT = '''\
"""Docstring: 1 + 2 < 3 and not True."""

import numpy as np

__all__ = ["f"] + ["g"]

_LIMIT = 1e-6  # λ, two bytes


@wraps(np.zeros(2), 1 < 2)
def f(x: "1 + 1", y: np.maximum(1, 2) = None) -> not True:
    """Docstring."""
    if x < y and not x.any() or x[0] == "é":
        raise ValueError(f"{x + 1} is not {y}" + "at all")
    total = (x  # first + term
             + y) ** 2 * np.log(x)
    total -= min(x.sum(), -y)
    total[1:] = ~x & (y >= 0.5)
    return g(total, x, strict=True, flag=False) / (x - y) @ np.exp(y)
'''
UNTOUCHED = ['"""Docstring', "import", "__all__", "@wraps", "def f(", "raise"]


@pytest.fixture(scope="module")
def source():
    return Source("skspectral/somewhere/f.py", TEXT)


@pytest.fixture(scope="module")
def mutants(source):
    """All mutants; a comment inside what is dropped would make some that are no code."""
    made = [make_mutant(source, *site, edit) for *site, edits in sites(source) for edit in edits]
    return [mutant for mutant in made if mutant is not None]


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.__name__)
def test_every_operator_makes_valid_and_different_code(mutants, operator):
    made = [mutant for mutant in mutants if mutant.operator == operator.__name__]
    assert made
    for mutant in made:
        assert ast.dump(ast.parse(mutant.data)) != ast.dump(ast.parse(TEXT))


def test_only_the_lines_that_are_shown_change(mutants):
    for mutant in mutants:
        before, after = TEXT.splitlines(), mutant.data.decode().splitlines()
        start = mutant.line - 1
        n_same = 0
        while before[::-1][n_same] == after[::-1][n_same]:
            n_same += 1
        assert before[:start] == after[:start]
        assert " ".join(" ".join(before[start : len(before) - n_same]).split()) in mutant.before
        assert " ".join(" ".join(after[start : len(after) - n_same]).split()) in mutant.after


def test_texts_imports_annotations_and_decorators_stay(mutants):
    assert not [mutant.before for mutant in mutants if mutant.before.startswith(tuple(UNTOUCHED))]
    assert not [mutant for mutant in mutants if "strict=True" not in mutant.data.decode()]


CONDITION = 'if x < y and not x.any() or x[0] == "é":'
RESULT = "return g(total, x, strict=True, flag=False) / (x - y) @ np.exp(y)"
POWER = "total = (x # first + term + y) ** 2 * np.log(x)"
MADE = [
    ("comparison", CONDITION, "<", "<="),
    ("comparison", CONDITION, "==", "!="),
    ("boolean", CONDITION, "and", "or"),
    ("boolean", CONDITION, "not ", ""),
    ("boolean", RESULT, "False", "True"),
    ("function", CONDITION, "any", "all"),
    ("function", RESULT, "exp", "expm1"),
    ("constant", CONDITION, "0", "1"),
    ("constant", "_LIMIT = 1e-6 # λ, two bytes", "1e-6", "2e-06"),
    ("swapped", RESULT, "total, x", "x, total"),
    ("arithmetic", RESULT, "x - y", "x + y"),
    ("arithmetic", "+ y) ** 2 * np.log(x)", "+", "-"),
    ("arithmetic", POWER, "(x # first + term + y) ** 2", "((x # first + term + y) * 2)"),
    ("dropped", RESULT, "x - y", "-y"),
    ("dropped", POWER, " * np.log(x)", ""),
    ("sign", RESULT, "exp(y)", "exp(-y)"),
    ("sign", "total -= min(x.sum(), -y)", "-y", "y"),
    ("statement", "total -= min(x.sum(), -y)", "total -= min(x.sum(), -y)", "pass"),
    ("statement", "total[1:] = ~x & (y >= 0.5)", "total[1:] = ~x & (y >= 0.5)", "pass"),
]


@pytest.mark.parametrize(("operator", "before", "old", "new"), MADE)
def test_what_operators_make(mutants, operator, before, old, new):
    made = {(mutant.before, mutant.after) for mutant in mutants if mutant.operator == operator}
    assert (before, before.replace(old, new, 1)) in made


def test_a_seed_always_draws_the_same_sample(source):
    first, again, other = (draw([source], 12, seed) for seed in (0, 0, 1))
    assert first == again
    assert first != other
    assert len({mutant.key for mutant in first}) == len(first) == 12
    assert len(draw([source], 10_000, 0)) <= len(sites(source))


def test_all_mutants_of_some_functions_are_made(source, mutants):
    inside = [mutant for mutant in mutants if mutant.function == "f"]
    assert {mutant.key for mutant in every([source], "^f$")} == {mutant.key for mutant in inside}
    assert len(inside) < len({mutant.key for mutant in mutants}) == len(every([source], ""))
    assert every([source], "g") == []


def test_functions_are_named_as_python_names_them():
    text = "a = 1\nclass C:\n b = 2\n def f(self, c=3):\n  def g(): return 4\n  return lambda: 5\n"
    source = Source("skspectral/f.py", text)
    found = {text[edits[0].start]: function for function, _, edits in sites(source)}
    assert found == {"1": "", "2": "", "3": "C.f", "4": "C.f.<locals>.g", "5": "C.f"}


def test_tests_that_call_the_mutated_function_are_run_and_quick_ones_first():
    calls = {"a::one[x]": (0.2, ["m.py f"]), "a::one[y]": (0.1, ["m.py f"]), "a::two": (0.05, ["m.py g"])}
    a = FileOfTests.from_calls(calls)
    b = FileOfTests.from_calls({"b::three": (50.0, ["m.py f", "n.py f"])})
    quick, more = batches(Mutant("m.py", 1, "f", "sign", "", "", b""), [a, b], 20.0, 120.0)
    assert (list(quick.items()), list(more.items())) == (
        [("a::one[y]", 0.1)],
        [("a::one[x]", 0.2), ("b::three", 50.0)],
    )
    outside, _ = batches(Mutant("m.py", 1, "", "sign", "", "", b""), [a, b], 20.0, 120.0)
    assert list(outside) == ["a::two", "a::one[y]"]
    for everything, function in ((outside, "never_called"), (quick, "f")):
        assert batches(Mutant("m.py", 1, function, "sign", "", "", b""), [a, b], 20.0, 120.0)[0] == everything


def test_tests_that_take_long_are_left_out_after_a_while_but_never_all():
    file = FileOfTests.from_calls({f"a::{k}[x]": (70.0, ["m.py f"]) for k in range(5)})
    mutant = Mutant("m.py", 1, "f", "sign", "", "", b"")
    assert [list(batch) for batch in batches(mutant, [file], 20.0, 120.0)] == [["a::0[x]"], ["a::1[x]"]]
    assert [list(batch) for batch in batches(mutant, [file], 80.0, 140.0)] == [
        ["a::0[x]"],
        ["a::1[x]", "a::2[x]"],
    ]


def test_what_computes_or_waits_for_too_long_is_ended():
    for work in ("while True: pass", "import time; time.sleep(100)"):
        script = f"from mutation import forks; forks._BUSY = 4.0\nwith forks.limited(0.2):\n exec('{work}')"
        done = subprocess.run([sys.executable, "-c", script], cwd=ROOT / "tests", timeout=60)
        assert -done.returncode in OUT_OF_TIME
    with limited(100.0):
        pass
    assert signal.getitimer(signal.ITIMER_PROF) == signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


MODULE = """
LIMIT = 1

class Some:
    size = 2

    def double(self, x, times=2):
        return (lambda y: y * times)(x)

def adder(n):
    return lambda x: x + n

add_one = adder(1)
"""


@pytest.mark.parametrize(
    ("old", "new", "inside"),
    [
        ("y * times", "y / times", True),
        ("x + n", "x - n", True),
        ("LIMIT = 1", "LIMIT = 2", False),
        ("size = 2", "size = 3", False),
        ("times=2", "times=3", False),
        ("adder(1)", "adder(-1)", False),
    ],
)
def test_what_changes_outside_of_functions_is_told(old, new, inside):
    assert is_in_functions(MODULE, MODULE.replace(old, new), "m.py") == inside


@pytest.mark.parametrize(
    ("old", "new", "got"), [("y * times", "y - times", (3, 6)), ("x + n", "x * n", (10, 5))]
)
def test_functions_that_others_hold_get_the_mutated_code(tmp_path, old, new, got):
    path, module = str(tmp_path / "m.py"), {}
    exec(compile(MODULE, path, "exec"), module)
    double, add_one = module["Some"]().double, module["add_one"]
    assert (double(5), add_one(5)) == (10, 6)
    for function, code in renewed_codes(path, MODULE, MODULE.replace(old, new)):
        function.__code__ = code
    assert (double(5), add_one(5)) == got


def test_numerical_tests_are_found_by_their_names():
    names = names_of_tests(ROOT)
    assert {"criteria", "learning", "doctests"} <= set(names)
    assert not {"architecture", "mutation_tool"} & set(names)


def test_the_table_of_mutants_that_change_nothing_is_read():
    table = (ROOT / HARMLESS).read_text()
    rows = [line for line in table.partition("|---|---|---|---|\n")[2].splitlines() if line]
    assert len(read_harmless(table)) == len(rows)
    one = read_harmless("| `skspectral/...` | `a \\| b...` | `a & b...` | both are masks |")
    like = Mutant("skspectral/linalg/rows.py", 1, "f", "boolean", "a | b  # why", "a & b  # why", b"")
    assert why_harmless(one, like) == "both are masks"
    assert why_harmless(one, Mutant("skspectral/rows.py", 1, "f", "boolean", "a & b", "a | b", b"")) is None


def test_what_is_judged_is_not_judged_again_unless_asked_or_no_longer_explained():
    verdicts = ("killed", "timed out", "survived", "equivalent")
    entries = {verdict: {"verdict": verdict} for verdict in verdicts}
    assert is_open(None, None, again=False)
    assert [v for v in verdicts if is_open(entries[v], None, again=False)] == ["equivalent"]
    assert [v for v in verdicts if is_open(entries[v], None, again=True)] == ["survived", "equivalent"]
    assert not [v for v in verdicts if is_open(entries[v], "a reason", again=True)]
    assert final(entries["survived"], "a reason") == {"verdict": "equivalent", "reason": "a reason"}
    assert final(entries["killed"], "a reason")["verdict"] == "killed"


def test_calls_come_back_from_the_log():
    calls = {"a": (0.1, ["m.py f", "m.py g"]), "b": (0.2, []), "c": (0.3, ["m.py g"])}
    assert unpacked(packed(calls)) == calls


SHARING = """
import importlib.util
import pytest

spec = importlib.util.spec_from_file_location("part", {path!r})
part = importlib.util.module_from_spec(spec)
spec.loader.exec_module(part)

@pytest.fixture(scope="module")
def shared():
    return part.f()

def test_first(shared): pass
def test_second(shared): part.g()
def test_alone(): pass
"""


def test_what_a_shared_fixture_calls_counts_for_all_that_use_it(tmp_path):
    package = tmp_path / "skspectral"
    package.mkdir()
    (package / "part.py").write_text("def f(): return 1\ndef g(): return 2\n")
    (tmp_path / "test_sharing.py").write_text(SHARING.format(path=str(package / "part.py")))
    calls = Calls(tmp_path)
    options = ["-q", "-p", "no:cacheprovider", "-n", "0", f"--rootdir={tmp_path}", str(tmp_path)]
    assert pytest.main(options, plugins=[calls]) == 0
    called = {name.rpartition("::")[2]: functions for name, (_, functions) in calls.tests.items()}
    f, g = "skspectral/part.py f", "skspectral/part.py g"
    assert called == {"test_first": [f], "test_second": [f, g], "test_alone": []}


def test_the_summary_counts_what_the_time_limit_killed():
    verdicts = ["killed", "killed", "timed out", "survived", "equivalent"]
    text = "\n".join(summary([{"verdict": verdict, "operator": "sign"} for verdict in verdicts]))
    assert "5 mutants, 1 of them equivalent. Of the other 4, 3 were killed (75.0%)" in text
    assert "| sign | 5 | 2 | 1 | 1 | 1 |" in text


def test_the_test_that_ends_a_run_is_found_in_its_output():
    running = "tests/test_a.py::test_one PASSED [ 50%]\ntests/test_a.py::test_two[1 - 2] "
    assert last_test(running) == "tests/test_a.py::test_two[1 - 2]"
    failed = "tests/test_a.py::test_one FAILED [ 50%]\n\nFAILED tests/test_a.py::test_one - assert 1 == 2"
    assert last_test(failed) == "tests/test_a.py::test_one"
    assert last_test("Segmentation fault") == "no test was reached"
