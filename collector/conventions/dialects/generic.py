"""Keys of no dialect, and our own, which override every other."""

from collector.conventions.own_keys import FIELDS
from collector.conventions.table import Dialect, Sign

DOKIMOS = Dialect(
    name="dokimos",
    signs=(Sign(key="dokimos."),),
    places={slot: (f"dokimos.{name}",) for name, slot in FIELDS.items()},
)

GENERIC = Dialect(
    name="generic",
    places={
        "input": ("gen_ai.prompt", "llm.input", "input", "prompt"),
        "output": ("gen_ai.completion", "llm.output", "output", "completion"),
        "run_id": ("tracejury.run.id",),
        "item_key": ("tracejury.item.key",),
    },
)
