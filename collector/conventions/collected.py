"""What the table finds on one span: the candidates of each field, the kind, the dialect, why something is missing."""

import math
from collections.abc import Mapping, Sequence
from operator import itemgetter

from collector.conventions import index
from collector.conventions.own import OwnKeys
from collector.conventions.table import Dialect, Place, Slot
from collector.conventions.values import NotJson, at, clean, decode, encodable, looks_encoded, parsed, text_of
from storage.records import AttributeValue, JsonValue, LogRecord, Span, SpanType

BLANKS = frozenset({"N/A", "<not serializable>", "<not specified>", "(merged tools)", "<unknown>"})
"""What frameworks write where they have nothing."""

_REDACTED = ("<REDACTED>", "[REDACTED]", "__REDACTED__", "REDACTED", "[Filtered]", "[Scrubbed due to")
_OURS = 1  # the rank of `dokimos.*` in each slot that can be given keys: an operator's own come right after it
_MAX_OWN_KEYS = 1_000_000

_Numbered = tuple[tuple[str, ...], object]  # the steps below a key, and the value
Candidate = tuple[float, Place, object, str]  # rank, place, value, what to call its source


class Collected:
    """The candidates on one span, strongest first; what is taken is remembered with its source."""

    __slots__ = ("_decoded", "_found", "_groups", "dialect", "kind", "kind_source", "notes", "sources", "span")

    def __init__(self, span: Span, logs: Sequence[LogRecord], own: OwnKeys) -> None:
        self.span = span
        self.sources: dict[str, str] = {}
        self.notes: list[str] = []
        self.dialect: Dialect | None = None
        self.kind: SpanType | None = None
        self.kind_source = ""
        self._found: dict[Slot, list[Candidate]] = {}
        self._groups: dict[str, list[_Numbered]] = {}
        self._decoded: dict[str, JsonValue | NotJson] = {}
        rank = self._walk(span.attributes)
        if span.events:
            for event in span.events:
                self._walk_event(event.name, event.attributes, "event")
        for log in logs:
            self._walk_event(log.event_name, _log_fields(log), "log")
        for number, (slot, key) in enumerate(own.of(span.project)):
            self._add_own(slot, key, number)
        self.dialect = index.dialect_at(rank)

    def candidates(self, slot: Slot) -> list[Candidate]:
        """What may hold a field, strongest first; without rows for another dialect alone."""
        found = self._found.get(slot)
        if not found:
            return []
        if len(found) > 1:
            found.sort(key=itemgetter(0))
        for one in found:
            if one[1].is_only:
                name = self.dialect.name if self.dialect else None
                return [one for one in found if not one[1].is_only or one[1].dialect == name]
        return found

    def tells(self, slot: Slot) -> bool:
        """Whether any row about a field fits."""
        return bool(self._found.get(slot))

    def text(self, slot: Slot, field: str = "") -> str | None:
        """A field that is a text; it has the name of its slot unless it is given another."""
        if slot not in self._found:
            return None
        field = field or slot
        for _, place, value, source in self.candidates(slot):
            inner = self.member(place, value, source) if place.path else value
            text = text_of(inner)
            if text is None or not text or text.isspace():
                continue
            if text[0] == '"' and text[-1] == '"' and len(text) > 1:  # MLflow writes every value as JSON
                text = text_of(self.opened(text, source)) or text
            if text in BLANKS:
                self.notes.append(f"{field}: {source} holds only the placeholder {text}")
                continue
            self.sources[field] = source
            return text
        return None

    def member(self, place: Place, value: object, source: str) -> JsonValue:
        """What lies at the path of a row in the JSON of its key; numbered attributes as their texts together."""
        if place.is_group:
            texts = (at(item, place.path) for item in numbered(self._groups.get(place.key, [])))
            return "\n".join(text for text in texts if isinstance(text, str)) or None
        decoded = self.opened(value, source) if isinstance(value, str) else value
        return at(decoded, place.path)

    def opened(self, text: str, source: str) -> JsonValue:
        """A text as JSON, else as a literal, decoded once however many rows ask; the text itself where it is none."""
        decoded = self._decoded.get(text)
        if decoded is None:
            try:
                decoded = decode(text if text.isascii() else encodable(text))
                if isinstance(decoded, str) and looks_encoded(decoded):
                    decoded = parsed(decoded)
            except NotJson as error:
                literal = parsed(text) if looks_encoded(text) else text
                decoded = error if isinstance(literal, str) else literal
            self._decoded[text] = decoded
        if isinstance(decoded, NotJson):
            if text.lstrip()[:1] in ("{", "["):
                self._note_once(f"{source}: its JSON {decoded}, so it is shown as text")
            return text
        return decoded

    def group(self, key: str) -> list[JsonValue]:
        """Attributes that are numbered below a key, as a list of what stands below each number."""
        return numbered(self._groups.get(key, []))

    def note(self, field: str, text: str) -> None:
        """Say why a field is not what one would expect."""
        self._note_once(f"{field}: {text}")

    def note_redacted(self, field: str, text: str) -> None:
        """Say so where the sender took the content out."""
        if len(text) < 200 and text.strip().startswith(_REDACTED):  # noqa: PLR2004 - a marker, not an essay about one
            self.note(field, "was redacted before it was sent")

    def _note_once(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _walk(self, attributes: Mapping[str, AttributeValue]) -> int:
        """Sort the attributes into candidates; the rank of the dialect that they are signs of."""
        seen = [(known, key, value) for key, value in attributes.items() if (known := index.key_known(key)) is not None]
        rank = self._rank(seen)
        kind_rank = math.inf
        for known, key, value in seen:
            for number, values in known.kinds:
                if number < kind_rank and (kind := _kind(value, values)) is not None:
                    kind_rank, self.kind, self.kind_source = number, kind, key
            if known.group is not None:
                head, steps = known.group
                if head in self._groups:
                    self._groups[head].append((steps, value))
                    continue
                self._groups[head] = [(steps, value)]
            for place in known.places:
                self._add(place, value, f"{place.key}.*" if place.is_group else key)
        self._name_kind(rank, kind_rank)
        return rank

    def _add(self, place: Place, value: object, source: str) -> None:
        candidates = self._found.get(place.slot)
        if candidates is None:
            self._found[place.slot] = [(place.rank, place, value, source)]
        else:
            candidates.append((place.rank, place, value, source))

    def _rank(self, seen: list[tuple[index.Known, str, AttributeValue]]) -> int:
        """The strongest sign: of the keys and values, the scope, the resource, the name of the span."""
        rank, genai_rank = index.scope_rank(self.span.scope.name)
        is_genai = False
        for known, _, value in seen:
            rank = min(rank, known.rank)
            if known.is_genai:
                is_genai = True
            genai_rank = min(genai_rank, known.with_genai)
            for text, number in known.valued:
                if number < rank and value == text:
                    rank = number
        if is_genai:
            rank = min(rank, genai_rank, index.resource_rank(self.span.resource.attributes))
        rank = min(rank, index.span_rank(self.span.name))
        if rank != index.NO_DIALECT:
            self.sources["dialect"] = self._sign(seen, rank)
        return rank

    def _sign(self, seen: list[tuple[index.Known, str, AttributeValue]], rank: int) -> str:
        """What on the span is the sign of a dialect."""
        scope = self.span.scope.name
        if rank in index.scope_rank(scope):
            return f"scope {scope}"
        for known, key, value in seen:
            if rank in (known.rank, known.with_genai):
                return key
            if any(number == rank and value == text for text, number in known.valued):
                return f"{key}={text_of(value)}"
        return "the name of the span" if index.span_rank(self.span.name) == rank else "the resource"

    def _name_kind(self, rank: int, kind_rank: float) -> None:
        """Let the name of the span say what it does, where its dialect has names for that and no key is stronger."""
        dialect = index.dialect_at(rank)
        if dialect is None or not dialect.span_names or kind_rank < index.BY_NAME_RANK:
            return
        for beginning, kind in dialect.span_names.items():
            if self.span.name.startswith(beginning):
                self.kind, self.kind_source = kind, "the name of the span"
                return

    def _walk_event(self, name: str, attributes: Mapping[str, object], origin: str) -> None:
        weaker = 1_000 if origin == "event" else 2_000
        for place in index.event_places(name):
            value = attributes.get(place.key)
            if value is not None:
                candidate = (place.rank + weaker, place, value, f"{origin} {name}")
                self._found.setdefault(place.slot, []).append(candidate)

    def _add_own(self, slot: Slot, key: str, number: int) -> None:
        value = self.span.attributes.get(key)
        if value is not None:
            place = Place(slot=slot, rank=_OURS, dialect="", key=key)
            self._found.setdefault(slot, []).append((_OURS + (number + 1) / _MAX_OWN_KEYS, place, value, key))


def numbered(attributes: Sequence[_Numbered]) -> list[JsonValue]:
    """Attributes below a key as the tree that their dots and numbers spell, the numbers of the first level in order."""
    tree: dict[str, JsonValue] = {}
    for steps, value in attributes:
        node = tree
        for step in steps[:-1]:
            below = node.get(step)
            if below is None:
                below = node[step] = {}
            if type(below) is not dict:
                break
            node = below
        else:
            node.setdefault(steps[-1], value if type(value) is str and value.isascii() else clean(value))
    listed = _listed(tree)
    return listed if isinstance(listed, list) else []


def _listed(node: dict[str, JsonValue]) -> JsonValue:
    """A map whose keys are all numbers as a list in their order."""
    inner = {key: _listed(value) if type(value) is dict else value for key, value in node.items()}
    if all(key.isdecimal() and key.isascii() for key in inner):
        return [inner[key] for key in sorted(inner, key=int)] if inner else {}
    return inner


def _kind(value: object, values: Mapping[str, SpanType]) -> SpanType | None:
    text = value if isinstance(value, str) else text_of(value)
    if not text:
        return None
    kind = values.get(text)
    if kind is not None:
        return kind
    lowered = text.strip('"').lower()
    return values.get(lowered) or values.get(lowered.split(" ", 1)[0]) or values.get("")


def _log_fields(log: LogRecord) -> Mapping[str, object]:
    """What a log record says, in its attributes or its body."""
    body = log.body
    if isinstance(body, str) and looks_encoded(body):
        try:
            body = decode(body)  # type: ignore[assignment] # JSON is a part of what attributes can be
        except NotJson:
            body = log.body
    if not isinstance(body, dict):
        return log.attributes if body is None else {"content": body, **log.attributes}
    return {**log.attributes, **body}
