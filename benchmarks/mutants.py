"""Mutants: one operator, constant or condition of the source changed, and where it stands."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from copy import copy, deepcopy
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

# What is mutated, from the root of the repository.
SOURCES = (
    "src/recombine/base",
    "src/recombine/spaces",
    "src/recombine/theory",
    "src/recombine/claims",
    "src/recombine/tables",
    "src/recombine/audits",
)

BINARY: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub, ast.Mult),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div, ast.Add),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Div, ast.Mult),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,),
    ast.MatMult: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.BitXor: (ast.BitAnd,),
    ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,),
}
COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
PAIRS = [
    ("min", "max"),
    ("minimum", "maximum"),
    ("nanmin", "nanmax"),
    ("argmin", "argmax"),
    ("any", "all"),
    ("floor", "ceil"),
    ("zeros", "ones"),
    ("zeros_like", "ones_like"),
    ("sum", "prod"),
    ("mean", "sum"),
    ("intersection", "union"),
]
CALLED = {b: a for a, b in PAIRS} | dict(PAIRS)  # mean ↔ sum ↔ prod: the first pair wins for sum
CALLED |= {"sum": "mean", "prod": "sum"}
DROPPED = {"abs", "sorted", "reversed", "sqrt"}  # `f(x)` becomes `x`
SILENT = {"warn", "Refused", "nearest", "cast", "TypeVar", "ImportError"}  # messages and types
CHECKS = {"strict"}  # keywords that change nothing where the program is right

Block = tuple[str, int]  # a function with its digest, and the number of a list of statements in it


@dataclass(frozen=True)
class Mutant:
    """One change of one file.

    - ident: the same as long as the function around the change is, wherever its file goes
    - function: the outermost function or method; empty for code that runs at import
    - span: where it stands, in bytes
    - block: the list of statements that holds it
    """

    ident: str
    file: str
    line: int
    function: str
    was: str
    now: str
    span: tuple[int, int]
    block: Block

    def apply(self, source: bytes) -> bytes:
        """Write the changed file."""
        start, end = self.span
        return source[:start] + self.now.encode() + source[end:]


def _digest(*words: object) -> str:
    return hashlib.sha1("\0".join(map(str, words)).encode()).hexdigest()


def _without_words(tree: ast.AST) -> str:
    """Write a tree without docstrings, comments and imports, whose changes change nothing here."""
    tree = deepcopy(tree)
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            if isinstance(statements := getattr(node, name, None), list):
                kept = [s for s in statements if not isinstance(s, ast.Import | ast.ImportFrom)]
                setattr(node, name, [s for s in kept if not _is_text(s)])
    return ast.dump(tree)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _has_text(node: ast.AST) -> bool:
    """Return whether an operand is plainly text, whose sums are messages."""
    parts = [node.left, node.right] if isinstance(node, ast.BinOp) else [node]
    return any(
        isinstance(p, ast.JoinedStr)
        or (isinstance(p, ast.Constant) and isinstance(p.value, str | bytes))
        or (isinstance(p, ast.BinOp) and _has_text(p))
        for p in parts
    )


def _name(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


def changed(node: ast.AST) -> Iterator[ast.AST]:
    """List what a node may become."""
    match node:
        case ast.BinOp() | ast.AugAssign() if not _has_text(node):
            for op in BINARY[type(node.op)]:
                yield _with(node, op=op())
        case ast.Compare():
            for i, old in enumerate(node.ops):
                for other in COMPARED[type(old)]:
                    yield _with(node, ops=[*node.ops[:i], other(), *node.ops[i + 1 :]])
        case ast.BoolOp():
            yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node.operand
        case ast.UnaryOp(op=ast.Invert()):
            yield node.operand
        case ast.Constant(value=bool() as truth):
            yield ast.Constant(not truth)
        case ast.Constant(value=int() as whole):
            yield ast.Constant(whole + 1)
            if whole > 0:
                yield ast.Constant(whole - 1)
        case ast.Constant(value=float() as number):
            yield ast.Constant(number + 1.0)
        case ast.Call() if _name(node) in CALLED:
            name = CALLED[_name(node)]
            if isinstance(node.func, ast.Attribute):
                yield _with(node, func=_with(node.func, attr=name))
            elif name not in ("mean", "prod"):  # these are no built-in functions
                yield _with(node, func=ast.Name(name))
        case ast.Call() if _name(node) in DROPPED and len(node.args) == 1 and not node.keywords:
            yield node.args[0]
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()


def _with(node: ast.AST, **fields: object) -> ast.AST:
    new = copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _negated(node: ast.AST) -> ast.expr | None:
    """Name the condition that is negated, if nothing else changes it."""
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        plain = not isinstance(node.test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant)
        return node.test if plain else None
    return None


def _skipped(node: ast.AST) -> bool:
    """Return whether a node holds only messages, types or text."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return True
    if isinstance(node, ast.Call) and _name(node) in SILENT:
        return True
    if isinstance(node, ast.keyword) and node.arg in CHECKS:
        return True
    return isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert) or _is_text(node)


def _children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield name, child


LISTS = ("body", "orelse", "finalbody")


class _Reader:
    """Walk one file, and list its blocks and mutants."""

    def __init__(self, file: str, source: bytes) -> None:
        self.file, self.source = file, source
        self.tree = ast.parse(source)
        self.starts = [0]
        for line in source.split(b"\n"):
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.mutants: list[Mutant] = []
        self.blocks: dict[Block, list[ast.stmt]] = {}
        for node in self.tree.body:
            self.enter(node, "")

    def enter(self, node: ast.AST, prefix: str) -> None:
        """Go through a statement that is outside functions."""
        if isinstance(node, ast.ClassDef):
            for child in node.body:
                self.enter(child, f"{prefix}{node.name}.")
            return
        if _skipped(node):
            return
        within = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        function = prefix + node.name if isinstance(node, ast.FunctionDef) else ""
        unit = [function or prefix, _without_words(node)]
        self.place = f"{function}@{_digest(*unit)[:8]}" if function else ""
        self.count = 0
        if within:
            self.walk_defaults(node, unit)
        self.walk(node, function, unit, (self.place, 0), body_only=within)

    def walk_defaults(self, node: ast.AST, unit: list[str]) -> None:
        """Defaults of arguments are computed at import."""
        assert isinstance(node, ast.FunctionDef)
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                self.visit(default, "", unit, ("", 0))

    def walk(
        self, node: ast.AST, function: str, unit: list[str], block: Block, *, body_only: bool
    ) -> None:
        here: dict[str, Block] = {}
        for name, child in _children(node):
            if body_only and name != "body":
                continue
            inner = block
            if function and name in LISTS and isinstance(child, ast.stmt):
                if name not in here:
                    numbers = [n for f, n in self.blocks if f == self.place]
                    here[name] = (self.place, len(numbers))
                    self.blocks[here[name]] = getattr(node, name)
                inner = here[name]
            self.visit(child, function, unit, inner)

    def visit(self, node: ast.AST, function: str, unit: list[str], block: Block) -> None:
        if _skipped(node):
            return
        self.note(node, function, unit, block)
        self.walk(node, function, unit, block, body_only=False)

    def note(self, node: ast.AST, function: str, unit: list[str], block: Block) -> None:
        """List what a node may become; chosen by its digest, so that other code has no say."""
        options = list(changed(node))
        if target := _negated(node):
            node, options = target, [ast.UnaryOp(ast.Not(), target)]
        if not options:
            return
        self.count += 1
        ident = _digest(Path(self.file).stem, *unit, self.count)
        new = options[int(ident[:8], 16) % len(options)]
        # Parentheses keep the reading of what stands around; a whole statement needs none.
        form = "{}" if isinstance(new, ast.stmt | ast.Constant) else "({})"
        was, now = ast.unparse(node), form.format(ast.unparse(new))
        at: Any = node  # what has options has a place, which the type of all nodes lacks
        start = self.starts[at.lineno - 1] + at.col_offset
        end = self.starts[at.end_lineno - 1] + at.end_col_offset
        self.mutants.append(
            Mutant(ident[:12], self.file, at.lineno, function, was, now, (start, end), block)
        )


def mutants(file: str, source: bytes) -> list[Mutant]:
    """List one change of every place in a file that can be changed."""
    return _Reader(file, source).mutants


def drawn(found: Iterable[Mutant], n: int, seed: int) -> list[Mutant]:
    """Draw mutants; a change of one function changes only the draw of its own mutants."""
    return sorted(found, key=lambda m: _digest(seed, m.ident))[:n]


def instrumented(file: str, source: bytes, first: int) -> tuple[bytes, dict[int, Block]]:
    """Write a file whose every list of statements notes that it ran, in the set `__ran__`."""
    reader = _Reader(file, source)
    numbers = {}
    for number, (block, statements) in enumerate(reader.blocks.items(), first):
        at = 1 if _is_text(statements[0]) else 0
        statements.insert(at, ast.parse(f"__ran__.add({number})").body[0])
        numbers[number] = block
    return ast.unparse(ast.fix_missing_locations(reader.tree)).encode(), numbers


def pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Pair the code of functions before and after a change, outermost first."""
    inner = [[c for c in code.co_consts if isinstance(c, CodeType)] for code in (old, new)]
    if [c.co_name for c in inner[0]] != [c.co_name for c in inner[1]]:
        raise LookupError("the two have other functions")
    for before, after in zip(*inner, strict=True):
        yield before, after
        yield from pairs(before, after)
