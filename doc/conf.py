"""The documentation site: python -m sphinx -W -b html doc doc/_build/html."""

import builtins
import inspect
import os
import re
import sys
from importlib.metadata import version as version_of
from pathlib import Path

from docutils import nodes
from docutils.utils.math import latex2mathml
from sklearn.base import BaseEstimator

import skspectral
from skspectral import kernels, likelihoods

sys.path.insert(0, str(Path(__file__).parent))
from measured import Measured

os.environ.setdefault("MPLBACKEND", "Agg")

project = "skspectral"
author = copyright = "The skspectral developers"
release = version = version_of("skspectral")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "sg_execution_times.rst", "gallery/sg_execution_times.rst"]
suppress_warnings = [
    "ref.python",  # a name in backquotes that several classes have is no link
    "config.cache",  # of the gallery's settings, which hold a function
]
templates_path = ["_templates"]
html_theme = "furo"
html_title = "skspectral"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
default_role = "py:obj"

autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
autodoc_typehints = "none"


def name_the_file(gallery_conf, path):
    """Let an example find its own path, which the gallery hides and a script has."""
    builtins.__file__ = str(path)


sphinx_gallery_conf = {
    "reset_modules": ("matplotlib", name_the_file),
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/(plot_|quickstart)",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "plot_gallery": True,
    "remove_config_comments": True,
    "abort_on_example_error": True,
}


# Formulas as MathML, which browsers draw themselves: no script from elsewhere, so that pages work offline.
# docutils writes an index of a letter with a tilde below it, and no space around the name of a function.
TILDE_WITH_INDEX = re.compile(
    r"<msup>\s*<munderover>\s*(<mi>\w</mi>)\s*(<mi>\w</mi>|<mrow>.*?</mrow>)\s*(<mo [^>]*>~</mo>)\s*"
    r"</munderover>\s*(<mn>\d</mn>)\s*</msup>",
    re.DOTALL,
)
FUNCTION = re.compile(r"<mi>(\w+)</mi>\s*<mo>&ApplyFunction;</mo>")


def mathml(source, display):
    """Return TeX as MathML."""
    text = str(latex2mathml.tex2mathml(source, as_block=display))
    text = TILDE_WITH_INDEX.sub(r'<msubsup><mover accent="true">\1\3</mover>\2\4</msubsup>', text)
    return FUNCTION.sub(r'<mo lspace="0.17em" rspace="0.17em">\1</mo>', text)


def visit_math(self, node):
    """Write a formula within a line."""
    self.body.append(mathml(node.astext(), display=False))
    raise nodes.SkipNode


def visit_math_block(self, node):
    """Write a formula on lines of its own."""
    self.body.append(f'<div class="math">{mathml(node.astext(), display=True)}</div>')
    raise nodes.SkipNode


# ---------------------------------------------------------------- docstrings
def skip_members_of_others(app, what, name, member, skip, options):
    """Leave out what scikit-learn's parents bring along; its own site documents that."""
    return True if str(getattr(member, "__module__", "")).startswith("sklearn.") else None


def escape_letters(app, what, name, obj, options, lines):
    """Keep |x| and y_ of plain sentences from being read as markup."""
    in_doctest = False
    for i, line in enumerate(lines):
        in_doctest = bool(line.strip()) and (in_doctest or line.lstrip().startswith(">>>"))
        if not in_doctest:
            lines[i] = "".join(escaped(part) for part in re.split(r"(``.+?``|:[a-z:]+:`.+?`|`.+?`)", line))


def escaped(part):
    """Return a part of a line with its bars and last underscores escaped, unless it is markup."""
    if part.startswith(("`", ":")) and part.endswith("`"):
        return part
    return re.sub(r"(?<=\w)_(?!\w)", r"\\_", part.replace("|", r"\|"))


# ---------------------------------------------------------------- the reference, from what is public
GROUPS = {
    "Estimators and searches": lambda thing: is_class(thing, BaseEstimator),
    "Displays": lambda thing: inspect.isclass(thing) and thing.__name__.endswith("Display"),
    "Warnings and errors": lambda thing: is_class(thing, Exception),
    "Results and sums": inspect.isclass,
    "Scores and data": callable,
}


def is_class(thing, parent):
    """Say whether a thing is a class that descends from the parent."""
    return inspect.isclass(thing) and issubclass(thing, parent)


def grouped(names):
    """Return the public names of the package by the first group that takes them."""
    groups = {title: [] for title in GROUPS}
    for name in names:
        thing = getattr(skspectral, name)
        title = next((title for title, takes in GROUPS.items() if takes(thing)), None)
        if title is not None:
            groups[title].append(f"skspectral.{name}")
    return groups


def section(title, names):
    """Return a table of names, each with a page of its own."""
    rows = "\n".join(f"   ~{name}" for name in names)
    return f"{title}\n{'-' * len(title)}\n\n.. autosummary::\n   :toctree: api\n   :nosignatures:\n\n{rows}\n"


def reference_page():
    """Return the page that lists everything public."""
    groups = grouped(skspectral.__all__)
    groups["Kernels to compose: skspectral.kernels"] = [f"skspectral.kernels.{n}" for n in kernels.__all__]
    groups["Likelihoods: skspectral.likelihoods"] = [
        f"skspectral.likelihoods.{n}" for n in likelihoods.__all__
    ]
    heading = "Reference\n=========\n\nEverything that is public, by kind.\n"
    return "\n".join([heading, *(section(title, names) for title, names in groups.items())])


Path(__file__).with_name("reference.rst").write_text(reference_page(), encoding="utf-8")


def setup(app):
    """Register the renderer of formulas and what happens to docstrings."""
    app.add_directive("measured", Measured)
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    app.config.html_math_renderer = "mathml"
    app.connect("autodoc-skip-member", skip_members_of_others)
    app.connect("autodoc-process-docstring", escape_letters, priority=600)  # after numpydoc
