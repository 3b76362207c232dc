"""Prompt templates in files beside rules: `templateFile` of a rule's configuration, read into its `template`."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from evaluators.templating import MAX_TEMPLATE
from rules.errors import BadRule, Problem
from rules.rule_text import RuleText

KEY: Final = "templateFile"
SUFFIX: Final = ".txt"
_NAME: Final = re.compile(r"[^./\\\x00-\x1f][^/\\\x00-\x1f]{0,195}\.txt")
_MAX_BYTES: Final = 4 * MAX_TEMPLATE  # UTF-8 has up to four for each character


def with_template(text: RuleText, folder: Path) -> RuleText:
    """The rule with the text of its template in it, so that another text is another revision of the rule.

    Raises:
        BadRule: the file that it names is not in the folder, or cannot be read.
    """
    configuration = text.rule.configuration
    if KEY not in configuration:
        return text
    try:
        told = {"template": _read(configuration, folder)}
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        line = text.lines.get("config", 1)
        raise BadRule([Problem(line=line, key=f"config.{KEY}", message=why)]) from None
    others = {key: value for key, value in configuration.items() if key != KEY}
    return replace(text, rule=replace(text.rule, configuration=others | told))


def _read(configuration: Mapping[str, object], folder: Path) -> str:
    name = configuration[KEY]
    if "template" in configuration:
        raise ValueError("says the same as config.template; keep one of them")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"must be the name of a file NAME{SUFFIX} in the folder of the rule")
    path = folder / name
    if not path.is_file():
        raise ValueError(f"there is no file {name} in the folder of the rule")
    with path.open("rb") as handle:
        content = handle.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise ValueError(f"{name} is larger than {_MAX_BYTES} bytes")
    return content.decode("utf-8-sig")
