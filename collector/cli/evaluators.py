"""`tracejury evaluators`: available evaluators."""

from collections.abc import Mapping
from typing import Any

import click

from collector.cli.render import print_json
from collector.cli.text import json_text


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="A JSON list, for scripts.")
def evaluators(*, name: str | None, as_json: bool) -> None:
    """List the evaluators: what they check and read, their configuration and its defaults."""
    from collector.evaluation.catalogue import kind_document
    from evaluators.registry import KINDS

    if name is not None and name not in KINDS:
        raise click.BadParameter(f"there is none of that name; there are: {', '.join(sorted(KINDS))}")
    documents = [kind_document(kind) for key, kind in KINDS.items() if name in {None, key}]
    if as_json:
        print_json(documents)
        return
    click.echo("\n\n".join(map(_kind_text, documents)))


def _kind_text(kind: Mapping[str, Any]) -> str:
    better = "" if kind["direction"] == "higher" else "; lower is better"
    judge = _JUDGES[kind["judge"]]
    lines = [f"{kind['name']}: {kind['checks']}", f"  reads {', '.join(kind['reads'])}; asks {judge}{better}"]
    width = max(len(key["key"]) for key in kind["configuration"])
    lines += [
        f"  {key['key']:<{width}}  {_default(key)}  {key['description']}".rstrip() for key in kind["configuration"]
    ]
    return "\n".join(lines)


_JUDGES = {
    "never": "no judge",
    "configured": "a judge if its configuration says so",
    "optional": "a judge if there is one",
    "always": "a judge",
}


def _default(key: Mapping[str, Any]) -> str:
    return "required" if key["required"] else f"[{json_text(key['default'], indent=None)}]"
