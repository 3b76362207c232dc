"""Statements of which some lines are left out: those about what is not asked."""

from collections.abc import Collection


def asked_for(statement: str, asked: Collection[str]) -> str:
    """A statement without the lines that end with `-- name`, where that is the name of a question that is not asked."""
    return "\n".join(text for text, name in marked_lines(statement) if name is None or name in asked)


def marked_lines(statement: str) -> list[tuple[str, str | None]]:
    """Its lines, each with the name of the question that it ends with; None: it stands there whatever is asked."""
    lines: list[tuple[str, str | None]] = []
    for line in statement.splitlines():
        text, mark, name = line.rpartition(" -- ")
        lines.append((text, name) if mark and name.isidentifier() else (line, None))
    return lines
