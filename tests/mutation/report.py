"""What is remembered and told of mutants, and which of them are known to change nothing."""

import json
import re
from collections import Counter

from .operators import OPERATORS

__all__ = ["HARMLESS", "Log", "line", "markdown", "read_harmless", "summary", "why_harmless", "write_report"]

HARMLESS = "tests/mutants_that_change_nothing.md"


def read_harmless(text):
    """Return the (file, before, after, reason) rows of the table of mutants that change nothing."""
    rows = re.findall(r"^\| `(.+?)` \| `(.+?)` \| `(.+?)` \| (.+?) \|$", text, flags=re.MULTILINE)
    return [tuple(cell.replace("\\|", "|") for cell in row) for row in rows]


def why_harmless(rows, mutant):
    """Return the reason why a mutant changes nothing, or None where none is known."""
    described = (mutant.path, mutant.before, mutant.after)
    for *patterns, reason in rows:
        if all(_matches(pattern, text) for pattern, text in zip(patterns, described, strict=True)):
            return reason
    return None


def _matches(pattern, text):
    """Return whether a text is like a pattern, in which "..." stands for anything."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("..."))), text) is not None


class Log:
    """Entries by their key, one json object in a line of a file; without a file they are only remembered."""

    def __init__(self, path):
        self.path = path
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        self.entries = {entry["key"]: entry for entry in map(json.loads, lines)}

    def add(self, entry):
        """Remember an entry in place of an earlier one with its key."""
        self.entries[entry["key"]] = entry
        if self.path is not None:
            with self.path.open("a") as out:
                out.write(json.dumps(entry) + "\n")


def line(entry):
    """Return a mutant in one line."""
    return f"{entry['path']}:{entry['line']} {entry['operator']}: {entry['before']}  ->  {entry['after']}"


def summary(entries):
    """Return lines that count verdicts, altogether and for each operator."""
    counts = Counter(entry["verdict"] for entry in entries)
    killed, rest = counts["killed"] + counts["timed out"], len(entries) - counts["equivalent"]
    lines = [
        f"{len(entries)} mutants, {counts['equivalent']} of them equivalent. Of the other {rest}, {killed} "
        f"were killed ({killed / max(rest, 1):.1%}), {counts['timed out']} of these by the time limit, and "
        f"{counts['survived']} survived.",
        "",
        "| operator | mutants | killed | timed out | equivalent | survived |",
        "|---|---|---|---|---|---|",
    ]
    for name in (operator.__name__ for operator in OPERATORS):
        of_it = Counter(entry["verdict"] for entry in entries if entry["operator"] == name)
        cells = (of_it[verdict] for verdict in ("killed", "timed out", "equivalent", "survived"))
        lines.append(f"| {name} | {of_it.total()} | " + " | ".join(map(str, cells)) + " |")
    return lines


def markdown(entries):
    """Return the report: the summary, then what was not simply killed."""
    lines = ["# Mutants", "", *summary(entries)]
    for verdict, column in (("survived", "operator"), ("equivalent", "reason"), ("timed out", "by")):
        chosen = [entry for entry in entries if entry["verdict"] == verdict]
        lines += ["", f"## {verdict.capitalize()}: {len(chosen)}", ""]
        if chosen:
            lines += [f"| where | before | after | {column} |", "|---|---|---|---|"]
        lines += [_row(entry, column) for entry in sorted(chosen, key=lambda e: (e["path"], e["line"]))]
    return "\n".join(lines) + "\n"


def _row(entry, column):
    before, after = (f"`{entry[name]}`".replace("|", "\\|") for name in ("before", "after"))
    return f"| {entry['path']}:{entry['line']} | {before} | {after} | {entry[column]} |"


def write_report(path, entries):
    """Write the report, in json or markdown by the ending of its name."""
    path.write_text(json.dumps(entries, indent=1) if path.suffix == ".json" else markdown(entries))
