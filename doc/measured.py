"""The directive that shows what a benchmark measured: `.. measured:: ordinary`."""

import json
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

__all__ = ["Measured"]

RESULTS = Path(__file__).resolve().parents[1] / "benchmarks" / "results"
_VERDICTS = {True: "met", False: "**not met**", None: ""}


class Measured(SphinxDirective):
    """The machine and the table of the last full run of a benchmark, as `benchmarks/results` has them.

    Where there was none yet, those of a smoke run, which it says, or else how to make one.
    """

    required_arguments = 1

    def run(self):
        """Return the nodes of a paragraph and a table."""
        name = self.arguments[0]
        paths = [RESULTS / f"{stem}.json" for stem in (name, f"{name}_fast")]
        for path in paths:
            self.env.note_dependency(str(path))
        found = [path for path in paths if path.exists()]
        text = _text(json.loads(found[0].read_text(encoding="utf-8"))) if found else [_missing(name)]
        node = nodes.container()
        self.state.nested_parse(StringList(text, source=str(paths[0])), self.content_offset, node)
        return node.children


def _text(record):
    smoke = ["A smoke run on small data, no measurement:", ""] if record["fast"] else []
    return [*smoke, *_machine(record["environment"]), "", *_table(record["rows"])]


def _missing(name):
    return f"``{name}`` is not measured yet; ``python -m benchmarks`` does."


def _machine(environment):
    versions = ", ".join(f"{name} {number}" for name, number in environment["versions"].items() if number)
    return [
        f"Measured {environment['when'][:10]} on {environment['cores']} cores ({environment['processor']}), "
        f"{environment['threads']} threads, Python {environment['python']}, {versions}.{_busy(environment)}"
    ]


def _busy(environment):
    """Return a sentence where more processes wanted to run before the benchmark than there are cores."""
    load = environment.get("load_average") or 0.0
    is_busy = load > environment["cores"]
    return f" Other work was running (load average {load:.0f}): seconds are upper bounds." if is_busy else ""


def _table(rows):
    lines = [".. list-table::", "   :header-rows: 1", ""]
    cells = [("row", "what", "value", "goal", ""), *(_cells(row) for row in rows)]
    for row in cells:
        lines += [f"   {'*' if k == 0 else ' '} - {cell}".rstrip() for k, cell in enumerate(row)]
    return lines


def _cells(row):
    unit = {"x": "×"}.get(row["unit"], f" {row['unit']}".rstrip())
    goal = row.get("goal")
    side = "≥" if row["at_least"] else "≤"
    bound = "" if goal is None else f"{side} {goal:g}"
    return row["row"], row["what"], f"{row['value']:.3g}{unit}", bound, _VERDICTS[row.get("met")]
