"""A verdict as Markdown for pull requests, and as JUnit XML."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from typing import Any, Final

MARK: Final = "<!-- tracejury-gate -->"
"""How our comment is found again. It is the first line, so that a quotation of it is not taken for it."""

MAX_COMMENT_CHARS: Final = 60_000  # GitHub takes 65,536
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]()#+!|<>~@$])")
_NOT_IN_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TITLES: Final[Mapping[str | None, str]] = {
    "regressed": "❌ Regressed",
    "not_worse": "✅ Not worse",
    "inconclusive": "⚠️ Inconclusive",
}


def markdown(verdicts: Sequence[Mapping[str, Any]]) -> str:
    """All verdicts, one after the other, cut where GitHub would refuse them."""
    text = "\n\n".join(_section(each) for each in verdicts) or "No gate left a verdict."
    cut = text if len(text) <= MAX_COMMENT_CHARS else text[:MAX_COMMENT_CHARS].rsplit("\n", 1)[0] + "\n\n… cut"
    return f"{MARK}\n{cut}\n"


def _section(document: Mapping[str, Any]) -> str:
    title = _TITLES.get(document.get("verdict"))
    title = title or ("⚠️ No baseline" if document["status"] == "NO_BASELINE" else f"{document['status'].capitalize()}")
    lines = [f"### {title}: {plain(str(document.get('experiment', '')))}", ""]
    if document["comparedPass"]:
        before, after = document["baselinePassRate"], document["candidatePassRate"]
        counts = f"{document['regressedCount']} items worse, {document['improvedCount']} better, "
        lines += [f"{_percent(before)} → {_percent(after)}; {counts}{document['unchangedCount']} the same.", ""]
        lines += [
            "| evaluator | verdict | baseline | candidate | difference (interval) | p |",
            "|---|---|---|---|---|---|",
        ]
        lines += [_row(each) for each in document["evaluators"]]
    if document["slices"]:
        lines += ["", "| slice | evaluator | items | difference | p |", "|---" * 5 + "|"]
        lines += [_slice(each) for each in document["slices"]]
    lines += ["", *(_ratio(each) for each in document["ratios"])]
    lines += [f"- **{plain(each)}**" for each in document["failures"]]
    lines += [f"- {plain(each)}" for each in document["warnings"]]
    lines += [_to_know(each) for each in document["evaluators"] if each["verdict"] == "inconclusive"]
    if document["cases"]:
        total = document["regressedCount"]
        lines += [
            "",
            f"<details><summary>{total} items worse</summary>",
            "",
            "| item | input | lost |",
            "|---|---|---|",
        ]
        for case in document["cases"]:
            drops = ", ".join(f"{plain(each['evaluator'])} {each['delta']:+.3g}" for each in case["evaluatorDrops"])
            lines.append(f"| {plain(case['key'])} | {plain(case['input'])} | {drops or 'pass rate'} |")
        lines += ["", "</details>"]
    return "\n".join(lines)


def _row(each: Mapping[str, Any]) -> str:
    told = "worse, within the margin" if each["withinMargin"] else "better" if each["improved"] else each["verdict"]
    low, high = each["interval"]
    interval = "unknown" if low is None or high is None else f"{low:+.3f} to {high:+.3f}"
    means = " | ".join("-" if mean is None else f"{mean:.3f}" for mean in (each["baselineMean"], each["candidateMean"]))
    found = f"{each['delta']:+.3f} ({interval}) | {each['adjustedPValue']:.3g}"
    return f"| {plain(each['evaluator'])} | {told.replace('_', ' ')} | {means} | {found} |"


def _slice(each: Mapping[str, Any]) -> str:
    name = plain(f"{each['key']} = {each['value']}")
    found = f"{each['items']} | {each['delta']:+.3f} | {each['adjustedPValue']:.3g}"
    return f"| {name} | {plain(each['evaluator'])} | {found} |"


def _ratio(each: Mapping[str, Any]) -> str:
    low, high = each["interval"]
    told = f", {each['verdict'].replace('_', ' ')}" if each["verdict"] else ""
    return f"- {plain(each['name'])}: {each['ratio']:.3g} times ({low or 0:.3g} to {high or 0:.3g}){told}"


def _to_know(each: Mapping[str, Any]) -> str:
    needed = f"{each['itemsNeeded']:,} items would prove a margin of {each['margin']:g}" if each["itemsNeeded"] else ""
    found = each["smallestDetectable"]
    least = "" if found is None else f"a difference of {found:.2g} would be found four times in five"
    return (
        f"- {plain(each['evaluator'])}: {each['items']} items; {'; '.join(filter(None, [least, needed])) or 'too few'}"
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def plain(text: str) -> str:
    """Text of somebody else that Markdown and HTML leave as it is, on one line; nobody is mentioned by it."""
    return _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", re.sub(r"\s+", " ", text))


def junit(document: Mapping[str, Any]) -> str:
    """A test case for each evaluator: a regression is a failure, and what is not known is skipped."""
    suite = ET.Element("testsuite", name=clean(f"gate {document.get('experiment', '')}"))
    found = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for each in document["evaluators"]:
        case = ET.SubElement(suite, "testcase", classname="gate", name=clean(each["evaluator"]))
        found["tests"] += 1
        told = f"{each['verdict']}: {each['delta']:+.4f}, interval {each['interval']}, p {each['adjustedPValue']}"
        if each["verdict"] == "regressed":
            found["failures"] += 1
            ET.SubElement(case, "failure", message=told)
        elif each["verdict"] == "inconclusive":
            found["skipped"] += 1
            ET.SubElement(case, "skipped", message=told)
    whole = ET.SubElement(suite, "testcase", classname="gate", name="verdict")
    found["tests"] += 1
    if not document["passed"]:
        found["failures"] += 1
        message = "; ".join(document["failures"]) or str(document["verdict"] or document["status"])
        ET.SubElement(whole, "failure", message=clean(message))
    elif not document["comparedPass"]:
        found["skipped"] += 1
        ET.SubElement(whole, "skipped", message=clean("; ".join(document["warnings"])))
    for name, count in found.items():
        suite.set(name, str(count))
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def clean(text: str) -> str:
    """Text without what XML cannot hold."""
    return _NOT_IN_XML.sub("�", text)
