"""Times as options of all commands take them."""

import datetime as dt
from collections.abc import Iterator

import click
import pytest

from collector.cli.main import main
from collector.cli.times import COMING, PAST, Instant

_TEN = dt.datetime(2026, 11, 21, 10, tzinfo=dt.UTC)


@pytest.mark.parametrize("kind", [PAST, COMING])
@pytest.mark.parametrize(
    "text, instant",
    [
        ("2026-11-21", _TEN.replace(hour=0)),
        ("2026-11-21T10:00:00Z", _TEN),
        ("2026-11-21t10:00:00z", _TEN),
        ("2026-11-21T11:00:00+01:00", _TEN),
        ("2026-11-21 10:00:00", _TEN),
        ("2026-11-21T10:00", _TEN),
        ("2026-11-21T10:00:00.5-00:00", _TEN.replace(microsecond=500_000)),
    ],
)
def test_days_and_instants_of_rfc_3339_are_read(kind: Instant, text: str, instant: dt.datetime) -> None:
    """A day or an instant is the same for each option, in UTC if it has no offset."""
    assert kind.convert(text, None, None) == instant


def test_distances_are_from_now() -> None:
    """A distance lies in the past or the future, as the option has it."""
    now = dt.datetime.now(dt.UTC)
    assert PAST.convert("24h", None, None) <= dt.datetime.now(dt.UTC) - dt.timedelta(hours=24)
    assert COMING.convert("90d", None, None) >= now + dt.timedelta(days=90)


@pytest.mark.parametrize("kind", [PAST, COMING])
@pytest.mark.parametrize(
    "text",
    ["", "soon", "2026-13-01", "2026-02-30", "20261121", "2026-W47-6", "0001-01-01T00:00:00+01:00", "0d", "99999999d",
     "9999-12-31T23:59:59-01:00", "2026-11-21T10:00:00Zulu", "1764000000"],
)  # fmt: skip
def test_other_texts_are_refused_with_what_is_accepted(kind: Instant, text: str) -> None:
    """A text that is not a time is refused with the accepted forms."""
    with pytest.raises(click.BadParameter, match=r"write 2026-11-21, 2026-11-21T10:00:00Z or .*, or 24h or 7d"):
        kind.convert(text, None, None)


def test_every_option_that_takes_a_time_takes_these() -> None:
    """An option whose metavar is TIME has the one type of times, and no option has another one."""
    options = [each for command in _commands(main) for each in command.params if isinstance(each, click.Option)]
    times = [each for each in options if isinstance(each.type, Instant)]
    assert {each.name for each in times} == {
        "before", "end", "expires", "from_time", "open_until", "start", "to_time", "until",
    }  # fmt: skip
    assert [each for each in options if isinstance(each.type, click.DateTime)] == []
    assert [each.name for each in options if each.metavar == "TIME" and each not in times] == []


def _commands(command: click.Command) -> Iterator[click.Command]:
    yield command
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            subcommand = command.get_command(click.Context(command), name)
            assert subcommand is not None
            yield from _commands(subcommand)
