"""An experiment as a process, which goes on with its run until that has all items: URL, run key, items."""

import sys
import time

from tracejury import Client, Dataset, Example, Experiment, RunEnded


def main(url: str, key: str, count: int) -> None:
    """Run it again and again, under one key; it waits for an unavailable server."""

    def task(example: Example) -> str:
        time.sleep(0.01)
        return str(example.input)

    def exact(example: Example, outputs: dict[str, object]) -> bool:
        return outputs["output"] == str(example.input)

    dataset = Dataset("kills", [Example(id=str(number), inputs={"input": number}) for number in range(count)])
    print("ready", flush=True)  # noqa: T201 - the parent waits for it before it kills
    while True:
        client = Client(url)
        experiment = Experiment("kills", dataset, task, [exact], run_key=key, parallelism=4, client=client, spool=None)
        try:
            result = experiment.run()
        except RunEnded:
            raise
        except Exception as error:  # noqa: BLE001 - the server was killed in between; the next round asks again
            print(error, file=sys.stderr)  # noqa: T201 - shown if the test fails
        else:
            if result.run_id is not None and not result.lost_items and len(result.items) == count:
                return
        finally:
            client.close()
        time.sleep(0.1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
