"""The child process that reads files of datasets, so that unpacking a file takes its memory, not the server's."""

import json
from pathlib import Path
from typing import Any, BinaryIO, Final

from collector.children.process import MORE
from collector.datasets.files import in_this_process
from storage import child_process
from storage.wire import receive, send
from tracejury.dataset_text import BadFile

_SENT_CHARACTERS: Final = 256 << 10  # at once; a guess


def main() -> None:
    """Answer requests on standard input until it ends."""
    child_process.run(serve)


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer each request for a file with its documents."""
    receive(requests)  # the greeting
    while (request := receive(requests)) is not None:
        try:
            _send_documents(answers, request[0])
            outcome: dict[str, Any] = {}
        except BadFile as error:
            outcome = {"error": str(error)}
        except RecursionError:
            outcome = {"error": "nested too deeply"}
        send(answers, outcome, [])


def _send_documents(answers: BinaryIO, request: dict[str, Any]) -> None:
    documents: list[tuple[str, str]] = []
    size = 0
    with Path(request["path"]).open("rb") as file:
        for place, document in in_this_process(file, request["form"]):
            documents.append((place, json.dumps(document)))
            size += len(documents[-1][1])
            if size > _SENT_CHARACTERS:
                send(answers, {MORE: True, "documents": documents}, [])
                documents, size = [], 0
    send(answers, {MORE: True, "documents": documents}, [])
