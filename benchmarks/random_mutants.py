"""Break random places of the code, one at a time, and see whether the unit tests notice.

Usage: python benchmarks/random_mutants.py [--folders core sampling guard tracking] [--count 150]

A mutant turns a comparison, an operation or a condition into its neighbour, counts one further, or
returns nothing, in a copy of the checkout (see ``mutants.py``). Equivalent mutants are not left
out, so not all can be killed. Fails if less than 85 % of those are whose tests ended.
"""

import ast
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import tyro
from mutants import AT_ONCE, ROOT, Copies, Mutant, report

PROMISED = 0.85
QUICK = ("-m", "not slow")
_VALUES = "tests/architecture/test_values.py"
TESTS = {
    "core": ("tests/unit/core", _VALUES),
    "sampling": ("tests/unit/sampling", "tests/unit/measure", _VALUES),
    "guard": ("tests/unit/guard", _VALUES),
    "tracking": ("tests/unit/tracking", "tests/unit/study/test_telling.py", _VALUES),
    "searching": ("tests/unit/searching", _VALUES),
}
"""What tests each folder."""
LIMIT_S = 300.0  # above what the slowest folder takes: what survives must not seem to hang
_NEIGHBOURS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


def changed(node: ast.AST) -> ast.AST | None:
    """Return what takes the place of ``node``; ``None`` if it is left as it is."""
    new: ast.AST | None = None
    match node:
        case ast.Compare(left=left, ops=[op], comparators=others):
            new = ast.Compare(left, [_NEIGHBOURS[type(op)]()], others)  # type: ignore[list-item]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _NEIGHBOURS:
            new = ast.BinOp(left, _NEIGHBOURS[type(op)](), right)  # type: ignore[arg-type]
        case ast.BoolOp(op=op, values=values):
            new = ast.BoolOp(_NEIGHBOURS[type(op)](), values)  # type: ignore[arg-type]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            new = operand
        case ast.Constant(value=bool(value)):
            new = ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            new = ast.Constant(value + 1)
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            new = ast.Return(None)
    return new


def tests_of(module: Path, folder: str) -> list[str]:
    """Return the files of tests, first those that are named for a module, or else name it."""
    name = ".".join(module.relative_to(ROOT / "platform").with_suffix("").parts)
    files = [
        file
        for place in TESTS[folder]
        for file in sorted((ROOT / place).rglob("test_*.py")) or [ROOT / place]
    ]
    files.sort(key=lambda file: (module.stem not in file.stem, name not in file.read_text()))
    return [str(file.relative_to(ROOT)) for file in files]


def mutants_of(folder: str) -> Iterator[Mutant]:
    """Yield all mutants of a folder whose lines occur once in their file."""
    for path in sorted((ROOT / "platform/joulelab" / folder).rglob("*.py")):
        source = path.read_text()
        lines, tests = source.splitlines(keepends=True), (*QUICK, *tests_of(path, folder))
        for node in ast.walk(ast.parse(source)):
            new, old = changed(node), ast.get_source_segment(source, node)
            if new is None or old is None:
                continue
            first, last = node.lineno - 1, node.end_lineno  # type: ignore[attr-defined]
            around = "".join(lines[first:last])
            text = f"({ast.unparse(new)})" if isinstance(new, ast.expr) else ast.unparse(new)
            start = len(lines[first].encode()[: node.col_offset].decode())  # type: ignore[attr-defined]
            end = start + len(old)
            if source.count(around) == 1:
                yield Mutant(
                    name=f"{path.stem}:{first + 1}: {' '.join(old.split())} -> {text}",
                    file=str(path.relative_to(ROOT)),
                    old=around,
                    new=around[:start] + text + around[end:],
                    tests=tests,
                )


def main(
    folders: Sequence[str] = tuple(TESTS),
    count: int = 150,
    seed: int = 1,
    at_once: int = AT_ONCE,
) -> int:
    """Try ``count`` mutants of these folders; return the exit status."""
    known = [mutant for folder in folders for mutant in mutants_of(folder)]
    chosen = random.Random(seed).sample(known, min(count, len(known)))  # noqa: S311
    with tempfile.TemporaryDirectory(prefix="mutants") as folder:
        copies = Copies(Path(folder), at_once=at_once, limit_s=LIMIT_S)
        tests = {test for name in folders for test in TESTS[name]}
        copies.require_sound([*QUICK, *sorted(tests)])
        with ThreadPoolExecutor(at_once) as pool:
            verdicts = []
            for verdict in pool.map(copies.judge, chosen):
                verdicts.append(verdict)
                print(f"{verdict.outcome}: {verdict.mutant.name}", file=sys.stderr, flush=True)
    return report(verdicts, PROMISED)


if __name__ == "__main__":
    sys.exit(tyro.cli(main))
