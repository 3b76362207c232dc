"""A folder of rules, one YAML file each."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from collector.evaluation.rule_check import ENDING, read_rule
from rules.errors import BadRule, Problem
from rules.rule import Rule
from rules.rule_text import RuleText, parse_rule
from rules.tree import MAX_CHARACTERS
from storage.limit import Limit
from tracejury.file_ending import ending_of

MAX_FILES: Final = 1_000
_FILES: Final = Limit(value=MAX_FILES, unit="files", remedy="remove files, or store rules over the API")
_ENDINGS: Final = ("yaml", "yml")
_FILE_LIMIT: Final = Limit(
    value=4 * MAX_CHARACTERS,  # UTF-8 takes up to four bytes for each
    unit="bytes",
    remedy="make several rules of it, or shorten its texts",
)

Identity: TypeAlias = tuple[str | None, str]
"""Identity of a rule from a file: project and name."""

Stamp: TypeAlias = "tuple[tuple[str, int, int, int], ...] | str"
"""Metadata of the files, or the reason why they cannot be read. The stamp changes if any file does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileProblem:
    """A problem of a file, or of the folder: then `file` is its path."""

    file: str
    line: int  # from 1; 0 for the file as a whole
    key: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        text = f"{place}: {self.key}: {self.message}" if self.key else f"{place}: {self.message}"
        return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRule:
    """The rule in a file."""

    file: str
    text: str
    parsed: RuleText

    @property
    def rule(self) -> Rule:
        """Return the parsed rule."""
        return self.parsed.rule

    @property
    def identity(self) -> Identity:
        """Return what identifies the rule: its project and name."""
        return self.rule.project, self.rule.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Content of a folder: rules with unique identities, and the files that hold none."""

    rules: tuple[FileRule, ...]
    problems: tuple[FileProblem, ...]
    unusable: frozenset[str]


class RuleFolder:
    """A folder of rules: its `*.yaml` and `*.yml`, in any case, but no file whose name starts with a dot."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def stamp(self) -> Stamp:
        """Return the state of the files; cheap enough for every second."""
        try:
            return tuple(_stamp_of(self.path / name) for name in self._names(*_ENDINGS, ENDING))
        except OSError as error:
            return error.strerror or type(error).__name__

    def read(self, holders: Mapping[Identity, str]) -> Reading:
        """Read every file; of several with the same rule, use the one that `holders` names, else the first by name.

        Raises:
            OSError: the folder cannot be read.
        """
        read: list[FileRule] = []
        problems: list[FileProblem] = []
        names = self._names(*_ENDINGS)
        for name in names[:MAX_FILES]:
            try:
                read.append(_read(self.path / name))
            except BadRule as error:
                problems += (_problem(name, problem) for problem in error.problems)
        problems += (
            _problem(name, Problem(line=0, key="", message=f"not read: a folder may have no more than {_FILES}"))
            for name in names[MAX_FILES:]
        )
        chosen: dict[Identity, FileRule] = {}
        for each in read:
            if each.identity not in chosen or holders.get(each.identity) == each.file:
                chosen[each.identity] = each
        problems += (_double(each, chosen[each.identity]) for each in read if each is not chosen[each.identity])
        usable = {each.file for each in chosen.values()}
        return Reading(
            rules=tuple(chosen.values()),
            problems=tuple(sorted(problems, key=lambda problem: (problem.file, problem.line))),
            unusable=frozenset(map(_shown, names)) - usable,
        )

    def _names(self, *endings: str) -> list[str]:
        names = (path.name for path in self.path.iterdir())
        return sorted(name for name in names if ending_of(name) in endings and not name.startswith("."))


def _stamp_of(path: Path) -> tuple[str, int, int, int]:
    try:
        seen = path.stat()
    except OSError:
        return path.name, 0, 0, 0
    return path.name, seen.st_mtime_ns, seen.st_size, seen.st_ino


def _read(path: Path) -> FileRule:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise _whole("is not a file")  # a pipe would never end
        with path.open("rb") as handle:
            content = handle.read(int(_FILE_LIMIT.value) + 1)
        if len(content) > _FILE_LIMIT.value:
            raise _whole(f"is larger than {_FILE_LIMIT}")
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise _whole(f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _whole(f"is not UTF-8: {error.reason}") from error
    parsed, _ = read_rule(lambda: parse_rule(text), path.parent)
    return FileRule(file=_shown(path.name), text=text, parsed=parsed)


def _whole(message: str) -> BadRule:
    return BadRule([Problem(line=0, key="", message=message)])


def _problem(name: str, problem: Problem) -> FileProblem:
    return FileProblem(file=_shown(name), line=problem.line, key=problem.key, message=problem.message)


def _double(second: FileRule, first: FileRule) -> FileProblem:
    where = "about all projects" if second.rule.project is None else f"in the project {second.rule.project!r}"
    message = f"{where} the file {first.file} has a rule {second.rule.name!r} already; this one is left out"
    return FileProblem(file=second.file, line=second.parsed.lines.get("name", 1), key="name", message=message)


def _shown(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "backslashreplace")
