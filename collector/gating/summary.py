"""A verdict as Markdown for pull requests, and as JUnit XML."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from typing import Any, Final

from collector.units import count_text

MARK: Final = "<!-- tracejury-gate -->"
"""First line of our comment, by which it is found again. A comment that merely quotes ours does not begin with it."""

MAX_COMMENT_CHARS: Final = 60_000  # GitHub takes 65,536
_MOST_TIMES: Final = 1e6  # a wider interval is meaningless
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]()#+!|<>~@$])")
_NOT_IN_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKS: Final[Mapping[str, str]] = {"regressed": "❌", "not_worse": "✅", "inconclusive": "⚠️"}
VERDICTS: Final[Mapping[str, str]] = {
    "regressed": "Regressed",
    "not_worse": "Not worse",
    "inconclusive": "Inconclusive",
}
"""The verdicts as people read them."""


def markdown(verdicts: Sequence[Mapping[str, Any]]) -> str:
    """Render all verdicts, one after the other, cut to the size that GitHub accepts."""
    text = "\n\n".join(_section(each) for each in verdicts) or "No gate left a verdict."
    cut = text if len(text) <= MAX_COMMENT_CHARS else text[:MAX_COMMENT_CHARS].rsplit("\n", 1)[0] + "\n\n… cut"
    return f"{MARK}\n{cut}\n"


def moved_text(document: Mapping[str, Any]) -> str:
    """Return the pass rates and the changes of items, for a comparison."""
    before, after = _percent(document["baselinePassRate"]), _percent(document["candidatePassRate"])
    counts = f"{count_text(document['regressedCount'], 'item')} worse, {document['improvedCount']} better"
    unscored = document.get("unscoredCount")  # verdicts of earlier versions have none
    more = f", {unscored} not scored in both" if unscored else ""
    return f"{before} → {after}; {counts}, {document['unchangedCount']} the same{more}."


def evaluator_text(each: Mapping[str, Any]) -> str:
    """Return an evaluator's verdict in two or three words."""
    verdict = "worse, within the margin" if each["withinMargin"] else "better" if each["improved"] else each["verdict"]
    return str(verdict).replace("_", " ")


def needed_text(each: Mapping[str, Any]) -> str:
    """Return which difference these items could show, and how many items would suffice."""
    needed = f"{each['itemsNeeded']:,} items would rule out a loss of {each['margin']:g}" if each["itemsNeeded"] else ""
    detectable = each["smallestDetectable"]
    least = "" if detectable is None else f"a difference of {detectable:.2g} would be detected with 80 % power"
    return f"{each['items']} items; {'; '.join(filter(None, [least, needed])) or 'too few'}"


def interval_text(each: Mapping[str, Any]) -> str:
    """Format the interval of a difference."""
    low, high = each["interval"]
    return "unknown" if low is None or high is None else f"{low:+.3f} to {high:+.3f}"


def p_value_text(each: Mapping[str, Any]) -> str:
    """Format the corrected p-value; 0 stands for less than 1e-06, because a verdict rounds to six decimals."""
    return f"{each['adjustedPValue']:.3g}" if each["adjustedPValue"] else "under 1e-06"


def ratio_text(each: Mapping[str, Any]) -> str:
    """Return how cost or time changed; an interval of more than a million times means that there are too few items."""
    low, high = each["interval"]
    verdict = f", {each['verdict'].replace('_', ' ')}" if each["verdict"] else ""
    interval = f"{low or 0:.3g} to {high or 0:.3g}" if (high or 0) < _MOST_TIMES else "too few items for an interval"
    return f"{each['ratio']:.3g} times ({interval}){verdict}"


def _section(document: Mapping[str, Any]) -> str:
    verdict = str(document.get("verdict"))
    title = f"{_MARKS[verdict]} {VERDICTS[verdict]}" if verdict in VERDICTS else None
    title = title or ("⚠️ No baseline" if document["status"] == "NO_BASELINE" else f"{document['status'].capitalize()}")
    lines = [f"### {title}: {plain(str(document.get('experiment', '')))}", ""]
    if document["comparedPass"]:
        lines += [moved_text(document), ""]
        lines += [
            "| evaluator | verdict | baseline | candidate | difference (interval) | p |",
            "|---|---|---|---|---|---|",
        ]
        lines += [_row(each) for each in document["evaluators"]]
    if document["slices"]:
        lines += ["", "| slice | evaluator | items | difference | p |", "|---" * 5 + "|"]
        lines += [_slice(each) for each in document["slices"]]
    listed = [f"- {plain(each['name'])}: {ratio_text(each)}" for each in document["ratios"]]
    listed += [f"- **{plain(each)}**" for each in document["failures"]]
    listed += [f"- {plain(each)}" for each in document["warnings"]]
    undecided = [each for each in document["evaluators"] if each["verdict"] == "inconclusive"]
    listed += [f"- {plain(each['evaluator'])}: {needed_text(each)}" for each in undecided]
    listed += [
        f"- {plain(each['evaluator'])} corrected for judge errors: {corrected_text(each)}"
        for each in _of_people(document)
    ]
    lines += ["", *listed] if listed else []
    lines += _repeats(document.get("repeats", ()))
    if document["cases"]:
        total = document["regressedCount"]
        lines += [
            "",
            f"<details><summary>{count_text(total, 'item')} worse</summary>",
            "",
            "| item | input | lost |",
            "|---|---|---|",
        ]
        for case in document["cases"]:
            drops = ", ".join(f"{plain(each['evaluator'])} {each['delta']:+.3g}" for each in case["evaluatorDrops"])
            lines.append(f"| {plain(case['key'])} | {plain(case['input'])} | {drops or 'pass rate'} |")
        if total > len(document["cases"]):
            lines += ["", f"and {total - len(document['cases'])} more"]
        lines += ["", "</details>"]
    return "\n".join(lines)


def _of_people(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    corrected: Sequence[Mapping[str, Any]] = document.get("corrected", ())
    return corrected


def corrected_text(each: Mapping[str, Any]) -> str:
    """Return the pass rates corrected by people's labels, the interval of the difference, and its meaning as text."""
    before, after = (_percent(each[side]["value"]) for side in ("baseline", "candidate"))
    low, high = each["difference"]["low"], each["difference"]["high"]
    return f"{before} → {after} ({low:+.3f} to {high:+.3f}). {each['inWords']}"


def _row(each: Mapping[str, Any]) -> str:
    means = " | ".join("-" if mean is None else f"{mean:.3f}" for mean in (each["baselineMean"], each["candidateMean"]))
    numbers = f"{each['delta']:+.3f} ({interval_text(each)}) | {p_value_text(each)}"
    return f"| {plain(each['evaluator'])} | {evaluator_text(each)} | {means} | {numbers} |"


def _slice(each: Mapping[str, Any]) -> str:
    name = plain(f"{each['key']} = {each['value']}")
    numbers = f"{each['items']} | {each['delta']:+.3f} | {p_value_text(each)}"
    return f"| {name} | {plain(each['evaluator'])} | {numbers} |"


def _repeats(chances: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines of repeated trials; verdicts of older versions have none."""
    if not chances:
        return []
    head = ["", "| trials | items | one of them passes (pass@k) | all of them pass (pass^k) |"]
    rows = [
        f"| k = {each['k']} | {each['items']} | {_change(each['passAtK'])} | {_change(each['passHatK'])} |"
        for each in chances
    ]
    return [*head, "|---" * 4 + "|", *rows]


def _change(chances: Sequence[float]) -> str:
    return " → ".join(f"{100 * chance:.1f} %" for chance in chances)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def plain(text: str) -> str:
    """Escape foreign text for Markdown and HTML, on one line; mentions in it notify no user."""
    return _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", re.sub(r"\s+", " ", text))


def junit(document: Mapping[str, Any]) -> str:
    """Render a test case for each evaluator and one for the gate.

    An evaluator that is `regressed` fails, one that is `inconclusive` is skipped. The gate's test case fails if the
    gate does, and is skipped if nothing was compared.
    """
    suite = ET.Element("testsuite", name=clean(f"gate {document.get('experiment', '')}"))
    counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for each in document["evaluators"]:
        case = ET.SubElement(suite, "testcase", classname="gate", name=clean(each["evaluator"]))
        counts["tests"] += 1
        details = f"{each['verdict']}: {each['delta']:+.4f}, interval {each['interval']}, p {each['adjustedPValue']}"
        if each["verdict"] == "regressed":
            counts["failures"] += 1
            ET.SubElement(case, "failure", message=details)
        elif each["verdict"] == "inconclusive":
            counts["skipped"] += 1
            ET.SubElement(case, "skipped", message=details)
    whole = ET.SubElement(suite, "testcase", classname="gate", name="verdict")
    counts["tests"] += 1
    if not document["passed"]:
        counts["failures"] += 1
        message = "; ".join(document["failures"]) or str(document["verdict"] or document["status"])
        ET.SubElement(whole, "failure", message=clean(message))
    elif not document["comparedPass"]:
        counts["skipped"] += 1
        ET.SubElement(whole, "skipped", message=clean("; ".join(document["warnings"])))
    for name, count in counts.items():
        suite.set(name, str(count))
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def clean(text: str) -> str:
    """Replace characters that XML cannot hold."""
    return _NOT_IN_XML.sub("�", text)
