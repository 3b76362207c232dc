"""The verdict of a gate as text."""

from collections.abc import Mapping
from typing import Any, Final

import click

from collector.escaping import one_line

_CASES: Final = 10


def print_verdict(document: Mapping[str, Any]) -> None:
    """Print a verdict; its warnings go to standard error."""
    from collector.gating.summary import moved_text, needed_text, ratio_text

    click.echo(f"{document['status']}: {document['verdict'] or 'nothing was compared'}")
    if document["comparedPass"]:
        click.echo(f"  {moved_text(document)}")
    for each in document["evaluators"]:
        low, high = each["interval"]
        interval = "unknown" if low is None or high is None else f"{low:+.4f} to {high:+.4f}"
        line = f"{each['evaluator']}: {each['verdict']}, {each['delta']:+.4f} ({interval})"
        known = needed_text(each) if each["verdict"] == "inconclusive" else f"{each['items']} items"
        click.echo(one_line(f"  {line}, {known}"))
    for each in document["ratios"]:
        click.echo(one_line(f"  {each['name']}: {ratio_text(each)}"))
    for each in document["repeats"]:
        any_of, all_of = (f"{100 * was:.1f} % → {100 * now:.1f} %" for was, now in (each["passAtK"], each["passHatK"]))
        click.echo(f"  k = {each['k']}: pass@k {any_of}, pass^k {all_of}, {each['items']} items")
    _print_details(document)
    for text in document["failures"]:
        click.echo(one_line(f"failed: {text}"))
    for text in document["warnings"]:
        click.echo(one_line(f"warning: {text}"), err=True)


def _print_details(document: Mapping[str, Any]) -> None:
    from collector.gating.summary import corrected_text, p_value_text

    for case in document["cases"][:_CASES]:
        drops = ", ".join(f"{each['evaluator']} {each['delta']:+.3g}" for each in case["evaluatorDrops"])
        click.echo(one_line(f"  worse: {case['key']} ({case['input']}): {drops or 'pass rate'}"))
    if document["cases"] and document["regressedCount"] > _CASES:
        click.echo(f"  and {document['regressedCount'] - _CASES} more that are worse")
    for each in document["slices"]:
        text = f"{each['evaluator']} {each['delta']:+.4f}, p {p_value_text(each)}, {each['items']} items"
        click.echo(one_line(f"  {each['key']}={each['value']}: {text}"))
    for each in document.get("corrected", ()):
        click.echo(one_line(f"  {each['evaluator']} corrected for judge errors: {corrected_text(each)}"))
