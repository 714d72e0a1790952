"""What the README shows is true: its Python blocks run, in order and in one namespace."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def python_blocks(text):
    """Return (line number, source) of every fenced Python block."""
    fences = re.finditer(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    return [(text.count("\n", 0, match.start(1)), match.group(1)) for match in fences]


def test_python_blocks_run_from_top_to_bottom():
    blocks = python_blocks(README.read_text(encoding="utf-8"))
    assert blocks
    namespace = {"__name__": "readme"}
    for line, source in blocks:
        # leading newlines make a traceback point at the line of the README
        exec(compile("\n" * line + source, str(README), "exec"), namespace)


def test_try_it_shows_exactly_two_commands():
    text = README.read_text(encoding="utf-8")
    section = text.partition("## Try it\n")[2].partition("\n## ")[0]
    commands = re.findall(r"^```(?:bash|sh)\n(.*?)^```$", section, flags=re.DOTALL | re.MULTILINE)
    lines = [line for block in commands for line in block.splitlines() if line.strip()]
    assert len(lines) == 2
    assert lines[0].endswith("examples/quickstart.py")
    assert lines[1].endswith("-m pytest")
