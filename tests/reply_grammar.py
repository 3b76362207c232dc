"""Replies of judges, made by the grammar of `evaluators.chat.reply`, with the verdict that each has."""

import html
import json
import random
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_WORDS: Final = ("the answer", "omits X", "score", "reason", "fine", "wait", "[1]", "{x}", "no", "ok", "1.", "so", "é")
_MENTIONS: Final = ("`<think>`", "“</think>”", '"<tool_call>"', "its <think> tag", "a </reasoning> tag", "'[THINK]'")
_MENTION: Final = "The answer leaks <think> to its users, and a List<Thought>."
_HARMONY: Final = ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>")
TAGS: Final = (
    *(
        (f"<{name}>", f"</{name}>")
        for name in ("think", "thinking", "thought", "reasoning", "reflection", "scratchpad")
    ),
    *(
        (f"<{name}>", f"</{name}>")
        for name in ("analysis", "thinking_process", "antThinking", "inner-monologue", "tool_call")
    ),
    *((f"<{name}>", f"</{name}>") for name in ("seed:think", "antml:thinking", "function_calls", "rationale", "draft")),
    ('<THINK effort="high">', "</Think>"),
    ("< think >", "<\\/think>"),
    ("&lt;think&gt;", "&lt;/think&gt;"),
    ("\uff1cthink\uff1e", "\uff1c/think\uff1e"),
    ("[THINK]", "[/THINK]"),
    ("[think]", "[/think]"),
    ("◁think▷", "◁/think▷"),
    ("<|think|>", "<|/think|>"),
    ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
    ("<|START_ACTION|>", "<|END_ACTION|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<\uff5cbegin▁of▁thinking\uff5c>", "<\uff5cend▁of▁thinking\uff5c>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<hidden>", "</hidden>"),
    ("<internal>", "</internal>"),
    ("<details>", "</details>"),
    ("&#60;think&#62;", "&#60;/think&#62;"),
    ("<th\u200bink>", "</th\u200bink>"),
    ("<|tool_call>", "<tool_call|>"),
    ("<|channel>thought\n", "<channel|>"),
    ("<unused94>thought\n", "<unused95>"),
    _HARMONY,
)
"""How models and their servers mark reasoning and calls of tools."""

_BEFORE_COMMA: Final = ('<my-notes n="1">,', "</my-notes>")
_SQUARE: Final = ("[notes]", "[/notes]")
_LINE: Final = ("// ", "\n")
BLOCKS: Final = (
    ("\n```thinking\n", "\n```\n"),
    ("\n~~~~draft\n```\n", "\n```\n~~~~\n"),
    ('<div class="reasoning"><div></div>', "</div>"),
    ('<step type="thinking">', "</step>"),
    ("<sketch>", "</sketch>"),
    ("<notes>", "</notes>"),
    _BEFORE_COMMA,
    ("<!--", "-->"),
    ("/*", "*/"),
    ("/** ", " **/"),
    _SQUARE,
    _LINE,
    ("\n## Draft\n", "\n## Verdict\n"),
    ("\n**Thinking**\n", "\n**Final answer**\n"),
    ("\nDraft: ", "\nVerdict: "),
)
"""Forms of which the closing one alone is none."""
_ENDING_ONLY: Final = (_BEFORE_COMMA, _SQUARE, _LINE)
"""Forms that are prose if they do not end."""
SECTION_ENDS: Final = {closing for _, closing in BLOCKS[-3:]}

_RENDERINGS: tuple[Callable[[dict[str, object]], str], ...] = (
    json.dumps,
    repr,
    lambda value: json.dumps(value, indent=2),
    lambda value: json.dumps(json.dumps(value)),
    lambda value: json.dumps(json.dumps(json.dumps(value))),
    lambda value: json.dumps(value)[:-1],
    lambda value: json.dumps({"output": value, "id": 1})[:-2],
    lambda value: html.escape(json.dumps(value)),
    lambda value: html.escape(html.escape(json.dumps(value))),
    lambda value: urllib.parse.quote(json.dumps(value)),
    lambda value: "\n" + "\n".join(f"{name}: {each}" for name, each in value.items()) + "\n",
    lambda value: "\n- " + "\n  ".join(f"{name}: '{each}'" for name, each in value.items()) + "\n",
    lambda value: "{" + ", ".join(f"{name}: '{each}'" for name, each in value.items()) + ",}",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeReply:
    """A reply, the judged text, and the verdict, if there is one."""

    text: str
    judged: str
    verdict: dict[str, object] | None


def a_reply(source: random.Random) -> MadeReply:  # noqa: C901 - a table of parts
    """Make a reply of reasoning, prose, drafts, quotations and verdicts, which may be cut off."""
    own, quoted = _an_object(source), _an_object(source)
    judged = f"{_prose(source)} {source.choice(_RENDERINGS)(quoted)} {_prose(source)} {_alike(source, own)}"
    parts, objects = [_start(source, own)], list[dict[str, object]]()
    is_mentioned = parts[0] == _MENTION
    last = ""
    for _ in range(source.randrange(4)):
        match source.choice(("prose", "reasoning", "closing", "own", "own", "quotation", "other")):
            case "reasoning":
                parts.append(_reasoning(source))
                if "channel" in parts[-1] or "RESPONSE" in parts[-1]:
                    objects.clear()
                    is_mentioned = False
                if parts[-1].endswith(tuple(SECTION_ENDS)) and objects:
                    objects.append({})  # a draft behind a verdict leaves none
            case "closing":
                # The mention of List<Thought> and a closing mark of that name are a pair: it ends no other mention.
                parts.append(source.choice([tag for _, tag in TAGS if not (is_mentioned and "thought" in tag)]))
                objects.clear()
                is_mentioned = False
            case "own":
                parts.append(last := _written(source, own))
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
            parts.append(_unfinished(source, own))
            objects = []
        case "half":
            written = json.dumps(own)
            parts.append(written[: source.randrange(2, len(written))])
            objects = []
        case _:
            pass
    is_last = bool(objects) and parts[-1] == last
    verdict = objects[0] if len(objects) == 1 and objects[0] is own and (is_last or not is_mentioned) else None
    return MadeReply(text="\n".join(parts), judged=judged, verdict=verdict)


def _start(source: random.Random, own: dict[str, object]) -> str:
    match source.randrange(8):
        case 0:
            draft = f"{_prose(source)} {_written(source, own)}"
            return f"Here is my thought process:\n{draft}\nHere is my response:\n{_prose(source)}"
        case 1:
            return f"analysisWe see {_written(source, own)} and {_prose(source)}.assistantfinal"
        case 2:
            return f"Analysis: {_prose(source)}"
        case 3:
            return _MENTION
        case _:
            return _prose(source)


def _reasoning(source: random.Random) -> str:
    opening, closing = source.choice((*TAGS, *BLOCKS))
    inner = f"{_prose(source)} {_written(source, _an_object(source))}"
    if (opening, closing) == _LINE:
        inner = inner.replace("\n", "\n// ")
    elif source.random() < 0.2 and "channel" not in opening and closing not in SECTION_ENDS:
        inner = f"{inner} {opening}{_prose(source)}{closing} {_written(source, _an_object(source))}"
    return f"{opening}{inner}{closing}"


def _unfinished(source: random.Random, own: dict[str, object]) -> str:
    """Make reasoning that does not end, with a draft, and maybe with a pair of its own marks in it."""
    opening, closing = source.choice([pair for pair in (*TAGS, *BLOCKS) if pair not in _ENDING_ONLY])
    pair = (
        f"says {opening}{_prose(source)}{closing} "
        if source.random() < 0.3 and "channel" not in opening and closing not in SECTION_ENDS
        else ""
    )
    return f"{opening}{_prose(source)} {pair}so {_written(source, own)} {source.choice(('', _prose(source)))}"


def _alike(source: random.Random, own: dict[str, object]) -> str:
    """Make values with a field of the verdict each, of which none is a quotation."""
    others = [{"score": own["score"], "id": 1}, {"reason": own["reason"], "score": 2}, {"score": own["score"]}]
    others += [{"reason": "x", "score": own["score"]}, {"reason": own["reason"], "more": [{"score": 3}]}]
    chosen = source.sample(others, source.randrange(4))
    if source.random() < 0.3:
        return "".join("\n- " + "\n  ".join(f"{name}: {each}" for name, each in value.items()) for value in chosen)
    return json.dumps(chosen)


def _an_object(source: random.Random) -> dict[str, object]:
    members: list[tuple[str, object]] = [("reason", f"{_prose(source)} {source.random()}"), ("score", source.random())]
    source.shuffle(members)
    return dict(members)


def _prose(source: random.Random) -> str:
    words = source.choices(_WORDS, k=source.randrange(1, 6))
    mention = [source.choice(_MENTIONS), "ok"] if source.random() < 0.1 else []
    return " ".join([*words, *mention])


def _written(source: random.Random, value: dict[str, object]) -> str:
    shapes: tuple[Callable[[str], str], ...] = (
        str,
        "```json\n{}\n```".format,
        '{{"result": {}}}'.format,
        "[{}]".format,
        *(f"<{name}>{{}}</{name}>".format for name in ("answer", "output", "json", "result", "verdict")),
    )
    return source.choice(shapes)(json.dumps(value, indent=source.choice((None, 2)), ensure_ascii=source.random() < 0.5))
