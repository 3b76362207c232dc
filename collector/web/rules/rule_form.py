"""Conversion of a rule's document to the fields of a form, and back."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from collector.web.visitor import Form
from rules.errors import BadRule, Problem
from rules.operators import EXISTS, IN, TEXT_TESTS
from rules.rule import Rule
from rules.rule_yaml import meant, spelled, yaml_of
from rules.tree import read_tree
from storage.records import JsonValue

GROUPS: Final = ("any", "all")
"""Groups of conditions that a row can hold as a JSON list: any or all of them must match."""

MAX_ROWS: Final = 40
"""Maximum number of conditions in a form; rules with more are edited as YAML. A guess."""

MORE_KEYS: Final[tuple[str, ...]] = ("tools", "expected", "monitor", "jury", "judge", "settle", "after")
"""Keys edited as YAML: those without a form field, and an `after` that the fields cannot express."""

SAYS: Final[Mapping[str, Mapping[str, JsonValue]]] = {
    "did not pass": {"passed": False},
    "passed": {"passed": True},
    "has a score": {"outcome": "scored"},
    "broke": {"outcome": "failed"},
}
"""Results of another rule that the form offers as a condition; any others are written as YAML."""

_AFTER: Final = ("after_rule", "after_says")
_WHOLE: Final = 2**53
_SETTING: Final = "config."
_LAID_ASIDE: Final = "aside."
_TEXTS: Final[Mapping[str, str]] = {
    "name": "name",
    "project": "project",
    "target": "target",
    "evaluator": "evaluator",
    "connection": "connectionId",
    "sample_rate": "sampleRate",
    "compare_by": "compareBy",
}
_LIMITS: Final[Mapping[str, str]] = {"calls": "callsPerDay", "tokens": "tokensPerDay", "usd": "usdPerDay"}
_LITERAL: Final = frozenset({"name", "project", "target", "evaluator", "connectionId", "compareBy"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionRow:
    """One condition as typed."""

    field: str
    operator: str
    value: str

    @property
    def is_blank(self) -> bool:
        """Return True if field and value are blank."""
        return not self.field.strip() and not self.value.strip()


BLANK: Final = ConditionRow(field="", operator="=", value="")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleForm:
    """The fields as typed; "" if blank."""

    texts: Mapping[str, str]  # by the names of fields: those of _TEXTS, _LIMITS, _AFTER and `more`
    enabled: bool = True
    unpriced: bool = False
    rows: Sequence[ConditionRow] = ()
    settings: Mapping[str, str] = field(default_factory=dict)  # of the evaluator, by key
    laid_aside: Mapping[str, str] = field(default_factory=dict)  # settings of evaluators chosen before

    @property
    def evaluator(self) -> str:
        """Return the chosen kind of evaluator."""
        return self.texts["evaluator"]

    def document(self, literal: frozenset[str]) -> dict[str, JsonValue]:
        """Return the rule document that the fields make. Settings in `literal` are texts and are not parsed.

        Raises:
            BadRule: `more` is not valid YAML, is not a mapping, or repeats a key of the form.
        """
        document: dict[str, JsonValue] = {}
        for name, key in _TEXTS.items():
            text = self.texts[name].strip()
            if text:
                document[key] = text if key in _LITERAL else meant(text)
        limits: dict[str, JsonValue] = {
            key: meant(text) for name, key in _LIMITS.items() if (text := self.texts[name].strip())
        }
        budget: dict[str, JsonValue] = {**limits, **({"allowUnpriced": True} if self.unpriced else {})}
        settings: dict[str, JsonValue] = {
            key: text if key in literal else meant(text) for key, text in self.settings.items() if text.strip()
        }
        rows: list[JsonValue] = [_clause(row) for row in self.rows if not row.is_blank]
        parts: dict[str, JsonValue] = {
            "name": document.pop("name", None),
            "enabled": None if self.enabled else False,
            "project": document.pop("project", None),
            "target": document.pop("target", None),
            "conditions": rows or None,
            "evaluator": document.pop("evaluator", None),
            "config": settings or None,
            **document,
            "budget": budget or None,
            **_after(self.texts),
        }
        return {key: value for key, value in {**parts, **self._more(parts)}.items() if value is not None}

    def _more(self, beside: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        text = self.texts["more"]
        if not text.strip():
            return {}
        try:
            mapping = read_tree(text).plain()
        except BadRule as error:
            problems = [
                Problem(line=1, key="more", message=f"line {one.line}: {one.message}") for one in error.problems
            ]
            raise BadRule(problems) from None
        if not isinstance(mapping, dict):
            raise BadRule([Problem(line=1, key="more", message="must be a mapping, `key: value`")])
        twice = sorted(key for key in mapping if key in beside or key in _TEXTS.values())
        if twice:
            raise BadRule([Problem(line=1, key="more", message=f"{', '.join(twice)}: use the form field above")])
        return mapping


def form_of(rule: Rule, literal: frozenset[str]) -> RuleForm:
    """Return the form of a rule; `literal` as in `document`."""
    document: dict[str, Any] = rule.document()
    budget = document.get("budget") or {}
    texts = {name: _text(document.get(key), is_literal=key in _LITERAL) for name, key in _TEXTS.items()}
    texts |= {name: _shown(budget.get(key)) for name, key in _LIMITS.items()}
    texts |= _after_texts(document.get("after") or {})
    more = {key: document[key] for key in MORE_KEYS if key in document and not (key == "after" and texts["after_rule"])}
    return RuleForm(
        texts=texts | {"more": yaml_of(more) if more else ""},
        enabled=rule.enabled,
        unpriced=bool(budget.get("allowUnpriced")),
        rows=[_row(clause) for clause in document.get("conditions") or ()],
        settings={key: _setting(value, is_literal=key in literal) for key, value in document["config"].items()},
    )


def blank_form(**texts: str) -> RuleForm:
    """Return an empty form with these texts."""
    names = (*_TEXTS, *_LIMITS, *_AFTER, "more")
    return RuleForm(texts=dict.fromkeys(names, "") | {"target": "SPAN"} | texts)


def sent_form(sent: Form) -> RuleForm:
    """Parse a sent form."""
    columns = (sent.texts("field"), sent.texts("op"), sent.texts("value"))
    rows = [
        ConditionRow(field=name.strip(), operator=operator, value=value)
        for name, operator, value in zip(*columns, strict=False)
    ]
    return RuleForm(
        texts={name: sent.text(name) for name in (*_TEXTS, *_LIMITS, *_AFTER, "more")},
        enabled=sent.checked("enabled"),
        unpriced=sent.checked("unpriced"),
        rows=[row for row in rows if not row.is_blank],
        settings=_under(_SETTING, sent),
        laid_aside=_under(_LAID_ASIDE, sent),
    )


def with_settings_of(form: RuleForm, known: frozenset[str]) -> RuleForm:
    """Move settings that are not in `known` to `laid_aside`, and settings in `laid_aside` that are known back."""
    written = {**form.laid_aside, **{key: text for key, text in form.settings.items() if text.strip()}}
    return replace(
        form,
        settings={key: text for key, text in written.items() if key in known},
        laid_aside={key: text for key, text in written.items() if key not in known},
    )


def _under(prefix: str, sent: Form) -> dict[str, str]:
    return {name.removeprefix(prefix): values[0] for name, values in sent.fields.items() if name.startswith(prefix)}


def condition_row(name: str, value: str | float) -> ConditionRow:
    """Return the condition that a field equals a value."""
    return _row({"field": name, "op": "=", "value": value})


def _row(clause: Mapping[str, Any]) -> ConditionRow:
    for mode in GROUPS:
        if mode in clause:
            return ConditionRow(field=mode, operator="=", value=_shown(clause[mode]))
    name, operator, value = clause["field"], clause["op"], clause["value"]
    if operator in TEXT_TESTS:
        return ConditionRow(field=name, operator=operator, value=_literal(value))
    if operator == IN:
        listed = [_shown(one) for one in value]
        is_simple = not any("," in one or one[:1] in {"[", '"'} for one in listed)
        return ConditionRow(field=name, operator=operator, value=", ".join(listed) if is_simple else _shown(value))
    return ConditionRow(field=name, operator=operator, value=_shown(value))


def _clause(row: ConditionRow) -> dict[str, JsonValue]:
    if row.field in GROUPS:
        return {row.field: meant(row.value)}
    named: dict[str, JsonValue] = {"field": row.field} if row.field else {}
    clause = named | {"op": row.operator}
    text = row.value
    if row.operator == EXISTS and not text.strip():
        return clause
    if row.operator in TEXT_TESTS:
        return clause | {"value": _unquoted(text)}
    if row.operator == IN and not text.lstrip().startswith("["):
        return clause | {"value": [meant(one.strip()) for one in text.split(",") if one.strip()]}
    return clause | {"value": meant(text.strip())}


def _after(texts: Mapping[str, str]) -> dict[str, JsonValue]:
    name = texts["after_rule"].strip()
    return {"after": {"rule": name, **SAYS.get(texts["after_says"], {})}} if name else {}


def _after_texts(after: Mapping[str, JsonValue]) -> dict[str, str]:
    settings = {key: value for key, value in after.items() if key != "rule"}
    says = next((name for name, each in SAYS.items() if each == settings), "")
    return {"after_rule": str(after["rule"]) if says else "", "after_says": says}


def _text(value: JsonValue, *, is_literal: bool) -> str:
    return value if is_literal and isinstance(value, str) else _shown(value)


def _setting(value: JsonValue, *, is_literal: bool) -> str:
    return value if is_literal and isinstance(value, str) else "" if value is None else spelled(value)


def _shown(value: JsonValue) -> str:
    return "" if value is None else spelled(_short(value))


def _short(value: JsonValue) -> JsonValue:
    """Return whole numbers without a decimal point."""
    match value:
        case float() if value.is_integer() and abs(value) < _WHOLE:
            return int(value)
        case list():
            return [_short(one) for one in value]
        case dict():
            return {key: _short(one) for key, one in value.items()}
        case _:
            return value


def _literal(text: str) -> str:
    is_plain = text == text.strip() and text.isprintable() and not text.startswith('"')
    return text if is_plain else json.dumps(text, ensure_ascii=not text.isprintable() and "\n" not in text)


def _unquoted(text: str) -> str:
    if text.startswith('"'):
        try:
            value = json.loads(text)
        except ValueError:
            return text
        if isinstance(value, str):
            return value
    return text


def places(problems: Sequence[Problem], form: RuleForm) -> Iterator[tuple[str, str]]:
    """Yield the field and the message of each problem; "" for a problem of no field."""
    names = {key: name for name, key in _TEXTS.items()} | {f"budget.{key}": name for name, key in _LIMITS.items()}
    for problem in problems:
        key = problem.key
        if key == "config":
            yield from _of_settings(problem, form)
        elif key.startswith("conditions["):
            yield f"row{key.removeprefix('conditions[').partition(']')[0]}", problem.message
        elif key.partition(".")[0] == "after" and form.texts["after_rule"].strip():
            yield "after_rule", problem.message
        elif key.partition(".")[0].partition("[")[0] in {*MORE_KEYS, "more"}:
            yield "more", problem.message if key == "more" else f"{key}: {problem.message}"
        else:
            yield names.get(key, ""), problem.message if key in names else f"{key}: {problem.message}".lstrip(": ")


def _of_settings(problem: Problem, form: RuleForm) -> Iterator[tuple[str, str]]:
    for key, message in problem.parts or [("", problem.message.removeprefix(f"{form.evaluator}: "))]:
        name = key.partition(".")[0].partition("[")[0]
        yield f"{_SETTING}{name}" if name else "config", message
