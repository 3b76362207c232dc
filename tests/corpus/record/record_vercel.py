"""The Vercel AI SDK on Node: arguments are the folder with the packages of record_vercel_N.json installed, and N."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.corpus.record import script, vercel_expect
from tests.corpus.record.recording import Recording, recording

PROGRAM = Path(__file__).with_suffix(".mjs")
SCRIPT = {
    "model": script.CHAT_MODEL,
    "embeddingModel": script.EMBEDDING_MODEL,
    "description": script.TOOL_DESCRIPTION,
    "results": {call.city: call.result for call in (script.OSLO, script.BERGEN)},
    "session": script.SESSION,
    "user": script.USER,
    "system": script.SYSTEM,
    "hello": script.HELLO,
    "greeting": script.GREETING,
    "name": script.NAME,
    "capital": script.CAPITAL,
    "picture": script.PICTURE,
    "pictureUrl": script.PICTURE_URL,
    "count": script.COUNT,
    "weather": script.WEATHER,
    "compare": script.COMPARE,
    "atlantis": script.ATLANTIS,
    "refused": script.REFUSED,
}


def record(recorder: Recording, folder: Path, version: str) -> None:
    """Record each scenario once, in a process of its own."""
    program = Path(shutil.copy(PROGRAM, folder))
    for name in vercel_expect.SCENARIOS:
        with recorder.scenario(name, vercel_expect.expected(version, name)):
            subprocess.run(["node", program, name], check=True, env=os.environ | {"SCRIPT": json.dumps(SCRIPT)})


def main() -> None:
    """Record one major version."""
    folder, version = Path(sys.argv[1]), sys.argv[2]
    if version == "7":
        os.environ["AI_OTEL"] = "1"
    with recording(f"vercel-{version}") as recorder:
        record(recorder, folder, version)


if __name__ == "__main__":
    main()
