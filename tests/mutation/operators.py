"""What a mutation is: operators that take a node of the syntax tree and return edits of the source there."""

import ast
import re
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["OPERATORS", "Edit", "Source"]


@dataclass(frozen=True)
class Edit:
    """The bytes between start and end are replaced by `new`; all others stay."""

    start: int
    end: int
    new: bytes


class Source:
    """A module's text, its syntax tree, and where nodes stand: in bytes, as `ast` counts columns."""

    def __init__(self, path, text):
        self.path, self.data, self.tree = path, text.encode(), ast.parse(text)
        self.lines = [0]
        for line in self.data.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))

    def start(self, node):
        """Return where a node begins."""
        return self.lines[node.lineno - 1] + node.col_offset

    def end(self, node):
        """Return where a node ends."""
        return self.lines[node.end_lineno - 1] + node.end_col_offset

    def code(self, node):
        """Return a node's own text, without parentheses around it."""
        return self.data[self.start(node) : self.end(node)]

    def token(self, left, right, symbol):
        """Return where an operator stands between two nodes, (start, end)."""
        gap = self.data[self.end(left) : self.start(right)]
        without_comments = re.sub(rb"#[^\n]*", lambda comment: b" " * len(comment[0]), gap)
        at = self.end(left) + without_comments.index(symbol)
        return at, at + len(symbol)

    def replace(self, node, new):
        """Return the edit that puts other text in the place of a node."""
        return Edit(self.start(node), self.end(node), new)

    def edited(self, edit):
        """Return the whole text after an edit."""
        return self.data[: edit.start] + edit.new + self.data[edit.end :]

    def line_number(self, edit):
        """Return the line in which an edit begins."""
        return self.data.count(b"\n", 0, edit.start) + 1

    def shown(self, edit):
        """Return the lines that an edit touches, before and after it, each as one line."""
        start = self.data.rfind(b"\n", 0, edit.start) + 1
        end = self.data.find(b"\n", edit.end)
        end = len(self.data) if end < 0 else end
        after = self.data[start : edit.start] + edit.new + self.data[edit.end : end]
        return tuple(" ".join(text.decode().split()) for text in (self.data[start:end], after))


_ARITHMETIC = {ast.Add: b"+", ast.Sub: b"-", ast.Mult: b"*", ast.Div: b"/"}  # another @ only breaks shapes
_OPPOSITE = {b"+": b"-", b"-": b"+", b"*": b"/", b"/": b"*"}


def arithmetic(source, node):
    """Return - for +, / for * and the other way round, also in augmented assignments; * for **."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        start, end = source.token(node.left, node.right, b"**")
        product = source.data[source.start(node) : start] + b"*" + source.data[end : source.end(node)]
        return [source.replace(node, b"(" + product + b")")]
    if not _is_arithmetic(node):
        return []
    left, right = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
    symbol = _ARITHMETIC[type(node.op)]
    return [Edit(*source.token(left, right, symbol), _OPPOSITE[symbol])]


def _is_arithmetic(node):
    return (
        isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _ARITHMETIC and not _joins_text(node)
    )


def _joins_text(node):
    return any(_is_text(child) for child in ast.iter_child_nodes(node))


def _is_text(node):
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


_COMPARISONS = {
    ast.Lt: ("<", "<=", ">="),
    ast.LtE: ("<=", "<", ">"),
    ast.Gt: (">", ">=", "<="),
    ast.GtE: (">=", ">", "<"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
}


def comparison(source, node):
    """Return each comparison with equality moved to the other side, and negated."""
    if not isinstance(node, ast.Compare):
        return []
    edits, operands = [], [node.left, *node.comparators]
    for left, op, right in zip(operands, node.ops, operands[1:], strict=False):
        if type(op) in _COMPARISONS:
            here, *others = (symbol.encode() for symbol in _COMPARISONS[type(op)])
            edits += [Edit(*source.token(left, right, here), other) for other in others]
    return edits


_SIGNED = (ast.Name, ast.Call, ast.Attribute, ast.Subscript)
_SIGNED_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.MatMult, ast.Pow)
# Of numpy: functions of sizes, those that a sign does not change, and those that it makes invalid at once.
_WITHOUT_SIGN = {"zeros", "ones", "empty", "full", "eye", "arange", "zeros_like", "ones_like", "empty_like"}
_WITHOUT_SIGN |= {"finfo", "errstate", "shape", "ndim", "broadcast_shapes", "abs", "square", "sqrt", "log"}


def sign(source, node):
    """Drop a minus; put one before the first operand, or before the first argument of a numpy function."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return [Edit(source.start(node), source.start(node) + 1, b"")]
    signed = None
    if isinstance(node, ast.BinOp) and isinstance(node.op, _SIGNED_OPERATORS) and not _joins_text(node):
        signed = node.left
    elif isinstance(node, ast.Call) and _is_numpy(node.func) and node.func.attr not in _WITHOUT_SIGN:
        signed = node.args[0] if node.args else None
    return [Edit(source.start(signed), source.start(signed), b"-")] if isinstance(signed, _SIGNED) else []


def _is_numpy(func):
    return isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "np"


_TINY = 1e-3


def constant(source, node):
    """Replace a number c by c + 1, 2 c or 0; by 2 c or 0 where it is tiny."""
    if not isinstance(node, ast.Constant) or type(node.value) not in (int, float):
        return []
    c, zero = node.value, type(node.value)(0)
    others = [2 * c, zero] if 0 < abs(c) < _TINY else [c + 1, 2 * c, zero]
    return [source.replace(node, repr(other).encode()) for other in dict.fromkeys(others) if other != c]


def dropped(source, node):
    """Drop a term of a sum or difference, or a factor of a product."""
    if not isinstance(node, ast.BinOp) or not _is_arithmetic(node):
        return []
    start, end = source.token(node.left, node.right, _ARITHMETIC[type(node.op)])
    first = source.data[source.start(node) : start].rstrip()
    second = source.data[end : source.end(node)].lstrip()
    rests = {ast.Sub: [first, b"-" + second], ast.Div: [first]}.get(type(node.op), [first, second])
    return [source.replace(node, rest) for rest in rests]


# Functions whose arguments may come in any order, and those that are about types.
_NOT_SWAPPED = {"maximum", "minimum", "max", "min", "add", "multiply", "array_equal", "hypot", "logaddexp"}
_NOT_SWAPPED |= {"isinstance", "issubclass", "hasattr", "getattr", "setattr"}


def swapped(source, node):
    """Swap two neighbouring positional arguments of a call."""
    if not isinstance(node, ast.Call) or _name(node.func) in _NOT_SWAPPED:
        return []
    # the larger of a number and its lower limit is the same the other way round
    args = node.args[1:] if _name(node.func) == "clip" else node.args
    return [_swap(source, *pair) for pair in pairwise(args) if _can_swap(source, *pair)]


def _can_swap(source, first, second):
    fixed = any(isinstance(arg, ast.Starred) or _is_text(arg) for arg in (first, second))
    return not fixed and source.code(first) != source.code(second)


def _swap(source, first, second):
    between = source.data[source.end(first) : source.start(second)]
    new = source.code(second) + between + source.code(first)
    return Edit(source.start(first), source.end(second), new)


def _name(func):
    return getattr(func, "attr", getattr(func, "id", ""))


def boolean(source, node):
    """Return or for and, | for &, True for False and the other way round; drop not and ~."""
    if isinstance(node, ast.BoolOp):
        here, there = (b"and", b"or") if isinstance(node.op, ast.And) else (b"or", b"and")
        pairs = zip(node.values, node.values[1:], strict=False)
        return [Edit(*source.token(left, right, here), there) for left, right in pairs]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):
        here, there = (b"&", b"|") if isinstance(node.op, ast.BitAnd) else (b"|", b"&")
        return [Edit(*source.token(node.left, node.right, here), there)]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert):
        word = re.match(rb"not\s*|~", source.code(node))[0]
        return [Edit(source.start(node), source.start(node) + len(word), b"")]
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return [source.replace(node, repr(not node.value).encode())]
    return []


_PAIRS = [("min", "max"), ("minimum", "maximum"), ("argmin", "argmax"), ("sum", "mean"), ("log", "log1p")]
_PAIRS += [("exp", "expm1"), ("any", "all"), ("tril", "triu"), ("zeros", "ones"), ("floor", "ceil")]
_PARTNER = {name: partner for pair in _PAIRS for name, partner in (pair, pair[::-1])}
_BUILTIN = {"min", "max", "any", "all"}


def function(source, node):
    """Call the partner of a function: max for min, mean for sum, log1p for log, ..."""
    name = _name(node.func) if isinstance(node, ast.Call) else None
    if name not in _PARTNER or (isinstance(node.func, ast.Name) and name not in _BUILTIN):
        return []
    return [Edit(source.end(node.func) - len(name), source.end(node.func), _PARTNER[name].encode())]


def statement(source, node):
    """Drop an augmented assignment, or an assignment to a part of an array."""
    into_part = isinstance(node, ast.Assign) and all(isinstance(t, ast.Subscript) for t in node.targets)
    return [source.replace(node, b"pass")] if into_part or isinstance(node, ast.AugAssign) else []


OPERATORS = (arithmetic, comparison, sign, constant, dropped, swapped, boolean, function, statement)
