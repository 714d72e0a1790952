"""A seeded random sample of single mutations of some modules."""

import ast
import hashlib
import random
import re
from dataclasses import dataclass

from .operators import OPERATORS, Source

__all__ = ["Mutant", "draw", "every", "make_mutant", "mutable", "read_sources", "sites"]

_SKIPPED_FIELDS = {"annotation", "returns", "decorator_list"}
# Arguments that say how something is computed and not what.
_HOW = {"check_finite", "overwrite_a", "overwrite_b", "overwrite_c", "overwrite_K", "strict", "stacklevel"}


@dataclass(frozen=True)
class Mutant:
    """A module with one mutation.

    Attributes
    ----------
    path : str
        The module, relative to the project.
    line : int
        Where the mutation begins.
    function : str
        The function around it by its qualified name, empty outside of functions.
    operator : str
        Which of `operators` made it.
    before, after : str
        The lines that it touches, each as one line.
    data : bytes
        The whole text of the mutated module.
    """

    path: str
    line: int
    function: str
    operator: str
    before: str
    after: str
    data: bytes

    @property
    def key(self):
        """What it is known by in a log."""
        return hashlib.sha256(self.path.encode() + b"\0" + self.data).hexdigest()[:16]

    @property
    def record(self):
        """What is written of it."""
        names = ("key", "path", "line", "operator", "before", "after")
        return {name: getattr(self, name) for name in names}


def mutable(node, function="", prefix=""):
    """Yield (node, function around it) of what may be mutated.

    No imports, annotations, decorators, messages or __all__. Names are qualified as in
    Python; `prefix` goes before the name of what is defined inside.
    """
    if isinstance(node, ast.FunctionDef):
        function = f"{prefix}{node.name}"
        prefix = f"{function}.<locals>."
    elif isinstance(node, ast.ClassDef):
        prefix = f"{prefix}{node.name}."
    yield node, function
    for child in _children(node):
        yield from mutable(child, function, prefix)


def _children(node):
    for name, value in ast.iter_fields(node):
        if name not in _SKIPPED_FIELDS:
            children = value if isinstance(value, list) else [value]
            yield from (child for child in children if isinstance(child, ast.AST) and not _is_skipped(child))


def _is_skipped(node):
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets)
    if isinstance(node, ast.keyword):
        return node.arg in _HOW
    # a part of an f-string has no position of its own before Python 3.12
    return isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr)


def sites(source):
    """Return every (function, operator, edits) of a source: what one operator can do at one node."""
    found = (
        (f, operator, operator(source, node)) for node, f in mutable(source.tree) for operator in OPERATORS
    )
    return [(function, operator, edits) for function, operator, edits in found if edits]


def make_mutant(source, function, operator, edit):
    """Return the mutant, or None where the edit breaks the syntax or leaves the code as it was."""
    data = source.edited(edit)
    try:
        tree = ast.parse(data)
    except SyntaxError:
        return None
    if ast.dump(tree) == ast.dump(source.tree):
        return None
    line, name = source.line_number(edit), operator.__name__
    return Mutant(source.path, line, function, name, *source.shown(edit), data)


def every(sources, functions):
    """Return all mutants of the functions in whose qualified names a regular expression is found."""
    chosen = [
        (source, *site) for source in sources for site in sites(source) if re.search(functions, site[0])
    ]
    made = (make_mutant(*site, edit) for *site, edits in chosen for edit in edits)
    return list({mutant.key: mutant for mutant in made if mutant is not None}.values())


def draw(sources, number, seed):
    """Return `number` different mutants: a site at random, every site alike, then one of its edits."""
    rng = random.Random(seed)
    everywhere = [(source, *site) for source in sources for site in sites(source)]
    rng.shuffle(everywhere)
    mutants = {}
    for source, function, operator, edits in everywhere:
        if len(mutants) >= number:
            break
        mutant = make_mutant(source, function, operator, rng.choice(edits))
        if mutant is not None:
            mutants.setdefault(mutant.key, mutant)
    return list(mutants.values())


def read_sources(root, paths):
    """Return the modules of some folders or files, given relative to the root, ordered by name."""
    places = [root / path for path in paths]
    missing = [str(place) for place in places if not place.exists()]
    if missing:
        raise SystemExit(f"There is nothing to mutate at {missing}. Give folders or files of the project.")
    files = {file for place in places for file in ([place] if place.is_file() else place.glob("*.py"))}
    return [Source(str(file.relative_to(root)), file.read_text()) for file in sorted(files)]
