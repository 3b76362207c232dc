"""The product's own source as syntax trees, for the tests that hold it to its budgets."""

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("collector", "evaluators", "rules", "storage")
BROAD = {"Exception", "BaseException"}
ENVIRONMENT = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}
CLICK_ENVIRONMENT = {"envvar", "auto_envvar_prefix"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function or method, wherever it is nested."""

    name: str  # path:name
    lines: int  # without its decorators
    parameters: int  # keyword-only ones included, self and cls not


@dataclass(frozen=True, slots=True)
class File:
    """One Python file."""

    path: str  # from the root of the repository
    text: str
    tree: ast.Module

    def functions(self) -> Iterator[Function]:
        """Yield every function in the file."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield Function(
                    name=f"{self.path}:{node.name}",
                    lines=(node.end_lineno or node.lineno) - node.lineno + 1,
                    parameters=_parameters(node.args),
                )

    def calls(self, function: str) -> Iterator[ast.Call]:
        """Yield every call of a function by exactly this spelling."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == function:
                yield node

    def silent_broad_handlers(self) -> Iterator[int]:
        """Yield the lines that catch everything and do not end in raising."""
        for node in ast.walk(self.tree):
            match node:
                case ast.ExceptHandler(type=caught, body=body) if _is_broad(caught):
                    if not isinstance(body[-1], ast.Raise):
                        yield node.lineno
                case ast.Call(func=ast.Name(id="suppress") | ast.Attribute(attr="suppress"), args=caught):
                    if any(map(_is_broad, caught)):
                        yield node.lineno
                case _:
                    pass

    def environment_reads(self) -> Iterator[int]:
        """Yield the lines that read the environment, or have click read it."""
        for node in ast.walk(self.tree):
            match node:
                case ast.Attribute(value=ast.Name(id="os"), attr=name) if name in ENVIRONMENT:
                    yield node.lineno
                case ast.ImportFrom(module="os", names=names) if ENVIRONMENT & {alias.name for alias in names}:
                    yield node.lineno
                case ast.keyword(arg=name) if name in CLICK_ENVIRONMENT:
                    yield node.lineno
                case _:
                    pass


def files(*folders: str) -> tuple[File, ...]:
    """Return every Python file below the folders, by path; those of the product when none is named."""
    paths = (file for folder in folders or PACKAGES for file in _files_in(folder))
    return tuple(sorted(paths, key=lambda file: file.path))


@functools.cache
def _files_in(folder: str) -> tuple[File, ...]:
    texts = ((path, path.read_text(encoding="utf-8")) for path in (ROOT / folder).rglob("*.py"))
    return tuple(File(path.relative_to(ROOT).as_posix(), text, ast.parse(text)) for path, text in texts)


def _parameters(arguments: ast.arguments) -> int:
    named = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    own = named[1:] if named[:1] in (["self"], ["cls"]) else named
    return len(own) + len(arguments.kwonlyargs)


def _is_broad(caught: ast.expr | None) -> bool:
    if isinstance(caught, ast.Tuple):
        return any(_is_broad(part) for part in caught.elts)
    return caught is None or ast.unparse(caught) in BROAD
