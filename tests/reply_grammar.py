"""Replies of judges, made by the grammar of `evaluators.chat.reply`, with the verdict that each has."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_WORDS: Final = ("the answer", "omits X", "score", "reason", "fine", "wait", "[1]", "{x}", "no", "ok", "1.", "so", "é")
_TAGS: Final = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeReply:
    """A reply, what was judged, and the verdict, if there is one."""

    text: str
    judged: str
    verdict: dict[str, object] | None


def a_reply(source: random.Random) -> MadeReply:
    """Make a reply of reasoning, prose, drafts, quotations and verdicts, which may be cut off."""
    own, quoted = _an_object(source), _an_object(source)
    judged = f"{_prose(source)} {_written(source, quoted)} {_prose(source)}"
    parts, objects = [_prose(source)], list[dict[str, object]]()
    for _ in range(source.randrange(4)):
        match source.choice(("prose", "reasoning", "closing", "own", "own", "quotation", "other")):
            case "reasoning":
                opening, closing = source.choice(_TAGS)
                parts.append(f"{opening}{_prose(source)} {_written(source, _an_object(source))}{closing}")
                if "channel" in opening:
                    objects.clear()
            case "closing":
                parts.append(source.choice(_TAGS)[1])
                objects.clear()
            case "own":
                parts.append(_written(source, own))
                objects.append(own)
            case "quotation":
                parts.append(_written(source, quoted))
                objects.append(quoted)
            case "other":
                parts.append(json.dumps({"score": 1}))
            case _:
                parts.append(_prose(source))
    match source.choice(("whole", "whole", "whole", "draft", "half")):
        case "draft":
            parts.append(f"{source.choice(_TAGS)[0]}{_prose(source)} {_written(source, own)}")
            objects = []
        case "half":
            written = json.dumps(own)
            parts.append(written[: source.randrange(2, len(written))])
            objects = []
        case _:
            pass
    verdict = objects[0] if len(objects) == 1 and objects[0] is own else None
    return MadeReply(text="\n".join(parts), judged=judged, verdict=verdict)


def _an_object(source: random.Random) -> dict[str, object]:
    members: list[tuple[str, object]] = [("reason", f"{_prose(source)} {source.random()}"), ("score", source.random())]
    source.shuffle(members)
    return dict(members)


def _prose(source: random.Random) -> str:
    return " ".join(source.choices(_WORDS, k=source.randrange(1, 6)))


def _written(source: random.Random, value: dict[str, object]) -> str:
    shapes: tuple[Callable[[str], str], ...] = (
        str,
        "```json\n{}\n```".format,
        '{{"result": {}}}'.format,
        "[{}]".format,
    )
    return source.choice(shapes)(json.dumps(value, indent=source.choice((None, 2)), ensure_ascii=source.random() < 0.5))
