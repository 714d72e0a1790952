"""What README and guide show is true: blocks of the README run alone, those of a page in order."""

import re
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "doc").glob("guide/*.rst"))
FENCED = r"^```python\n(.*?)^```$"
INDENTED = r"^\.\. code-block:: python\n\n((?:   .*\n|\n)+)"


def python_blocks(path, pattern):
    """Return (line number, source) of every Python block of a file."""
    text = path.read_text(encoding="utf-8")
    found = re.finditer(pattern, text, flags=re.DOTALL | re.MULTILINE if "```" in pattern else re.MULTILINE)
    return [(text.count("\n", 0, match.start(1)), dedent(match.group(1))) for match in found]


def run(path, line, source, namespace):
    """Run a block; leading newlines make a traceback point at the line of the file."""
    exec(compile("\n" * line + source, str(path), "exec"), namespace)


@pytest.mark.parametrize(("line", "source"), python_blocks(README, FENCED), ids=lambda part: str(part)[:4])
def test_every_block_of_the_readme_runs_alone(line, source):
    run(README, line, source, {"__name__": "readme"})


@pytest.mark.filterwarnings("ignore::skspectral.KernelBoundWarning")  # the guide tells of it
@pytest.mark.parametrize("page", PAGES)
def test_blocks_of_a_page_of_the_guide_run_from_top_to_bottom(page):
    namespace = {"__name__": "guide"}
    for line, source in python_blocks(ROOT / page, INDENTED):
        run(ROOT / page, line, source, namespace)


def test_the_readme_is_short():
    assert len(README.read_text(encoding="utf-8").splitlines()) < 250


def test_try_it_shows_exactly_two_commands():
    text = README.read_text(encoding="utf-8")
    section = text.partition("## Try it\n")[2].partition("\n## ")[0]
    commands = re.findall(r"^```(?:bash|sh)\n(.*?)^```$", section, flags=re.DOTALL | re.MULTILINE)
    lines = [line for block in commands for line in block.splitlines() if line.strip()]
    assert len(lines) == 2
    assert lines[0].endswith("examples/quickstart.py")
    assert lines[1].endswith("-m pytest")
