"""Prompt templates of operators: their placeholders, filled so that data cannot pose as instructions."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from evaluators.configuration import Parameter
from evaluators.errors import BadConfiguration
from evaluators.prompting import PLACE, filled, sections_of

MAX_TEMPLATE: Final = 20_000
"""Maximum number of characters. A guess: more than a judge follows."""

LABELS: Final[Mapping[Parameter, str]] = {
    "INPUT": "input",
    "ACTUAL_OUTPUT": "actual_output",
    "EXPECTED_OUTPUT": "expected_output",
    "TOOL_CALLS": "tool_calls",
    "TOOLS": "tools",
    "CONTEXT": "context",
    "CONVERSATION": "conversation",
    "METADATA": "metadata",
}
"""The name of the fence around each part of a test case, and of its placeholder."""

ALL_DATA: Final = "data"
"""The placeholder for all parts, one after the other."""

_INSTRUCTIONS: Final = ("criteria", "minimum", "maximum")
_VERSION = re.compile(r"version: *([1-9][0-9]{0,8})")


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptTemplate:
    """A template that can be filled."""

    version: int
    system: str
    user: str

    def instructions(self, values: Mapping[str, str]) -> str:
        """Return the judge's instructions."""
        return filled(self.system, values)

    def data(self, fences: Mapping[str, str]) -> str:
        """Return the judge's data: each part of the test case in its fence, within the text of the template."""
        return filled(self.user, {**fences, ALL_DATA: "\n\n".join(fences.values())})


def parse_template(text: str, shown: Sequence[Parameter]) -> PromptTemplate:
    """Return the template in a text: a line `version: N`, the section [system], and perhaps [user], else `{{data}}`.

    Raises:
        BadConfiguration: the text is not a template, or does not show the parts of a test case that a judge is to see.

    """
    head, sections = sections_of(text)
    version = _VERSION.fullmatch(head.strip())
    if version is None:
        raise _bad("must begin with a line `version: 1`, whose number you raise with each change")
    if [name for name, _ in sections] not in (["system"], ["system", "user"]):
        raise _bad("must have a section [system], and optionally a section [user] after it, each on a line of its own")
    system, user = dict(sections)["system"], dict(sections).get("user", "{{data}}")
    if not system:
        raise _bad("the section [system] must say what is to be judged")
    known = [LABELS[parameter] for parameter in shown]
    _check_places("system", system, _INSTRUCTIONS)
    places = _check_places("user", user, (ALL_DATA, *known))
    missing = [] if ALL_DATA in places else [name for name in known if name not in places]
    if missing:
        raise _bad(
            f"[user] must have a place {_spelled(missing)}, or {_spelled([ALL_DATA])} for all of evaluationParams"
        )
    return PromptTemplate(version=int(version[1]), system=system, user=user)


def _check_places(section: str, text: str, known: Collection[str]) -> set[str]:
    places = set(PLACE.findall(text))
    strange = sorted(places - set(known))
    if strange:
        of_data = [name for name in strange if name in {*LABELS.values(), ALL_DATA}]
        why = " goes into [user] and needs its part in evaluationParams;" if of_data else " is not a placeholder;"
        raise _bad(f"[{section}]: {_spelled(of_data or strange)}{why} placeholders here are {_spelled(known)}")
    return places


def _spelled(names: Collection[str]) -> str:
    return ", ".join(f"{{{{{name}}}}}" for name in names)


def _bad(message: str) -> BadConfiguration:
    return BadConfiguration(f"template: {message}", parts=[("template", message)])
