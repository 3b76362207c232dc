"""Active rules: of files and of the API, revision by revision, over a real store and real folders."""

import json
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from collector.api.documents.rule_documents import rule_document
from collector.live.rules.active_rules import ActiveRules, LoadedRule
from rules.errors import BadRule
from rules.rule import Budget
from rules.rule_text import RuleText, parse_json, parse_rule
from storage.errors import Conflict, NotFound
from storage.judging import rule_change
from storage.judging.rule_change import MAX_RULES
from storage.store import Store
from tests.live import until
from tests.storing import a_store, rows

pytestmark = pytest.mark.costly(
    "collector/api/documents", "collector/evaluation", "collector/live", "evaluators", "rules", "storage"
)

REFUNDS = """\
name: refunds
target: TRACE
conditions:
  - {field: tool_name, op: "=", value: refund}
evaluator: tool_error
"""
LONG = "x" * 200
HOSTILE = "\x1b[2J\u202e\r\nß😀'; DROP TABLE rule; --"


@contextmanager
def in_force(store: Store, folder: Path | None = None, *, poll_s: float = 0.01) -> Iterator[ActiveRules]:
    """Yield the rules of a store and a folder, while they are followed."""
    rules = ActiveRules(store.rulebook, folder, poll_s=poll_s)
    rules.start()
    try:
        yield rules
    finally:
        rules.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Yield an empty store."""
    with a_store(tmp_path / "data") as store:
        yield store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an empty folder of rules."""
    made = tmp_path / "rules"
    made.mkdir()
    return made


def a_text(name: str = "refunds", **keys: object) -> str:
    """Build a rule as JSON."""
    return json.dumps({"name": name, "evaluator": "tool_error", **keys})


def parsed(name: str = "refunds", **keys: object) -> tuple[RuleText, str]:
    """Return a rule and its text."""
    text = a_text(name, **keys)
    return parse_json(text), text


def write(folder: Path, **texts: str) -> None:
    """Put files into the folder, each at once and whole."""
    for name, text in texts.items():
        made = folder / f".{name}"
        made.write_text(text, encoding="utf-8")
        made.rename(folder / f"{name}.yaml")


def names(rules: ActiveRules) -> list[str]:
    """Return the names of the rules that judge, in order."""
    return sorted(active.rule.name for active in rules.active())


def messages_of(rules: ActiveRules) -> list[str]:
    """Return the messages about invalid files."""
    return [str(problem) for problem in rules.problems]


def only(rules: ActiveRules) -> LoadedRule:
    """Return the one rule that there is."""
    (kept,) = rules.kept()
    return kept


def test_a_rule_of_the_api_is_in_force_at_once_and_after_a_restart(store: Store) -> None:
    """The created rule is active, with its project, and reading the store again gives the same."""
    with in_force(store) as rules:
        kept = rules.create("shop", *parsed(conditions=[{"field": "name", "op": "=", "value": HOSTILE}]))
        (active,) = rules.active()
        assert (active.rule.project, active.revision, active.executor_kind, active.rule.enabled) == (
            "shop",
            1,
            "check",
            True,
        )
        assert kept.active == active
    with in_force(store) as again:
        assert again.active() == (active,)
        assert again.kept() == (kept,)
        assert again.revision(active.revision) == active
        assert again.revision(99) is None


def test_an_edit_is_a_revision_and_the_way_back_is_the_earlier_one(store: Store) -> None:
    """Only a new meaning gets a new revision number, and a text with an earlier meaning gets the earlier number."""
    with in_force(store) as rules:
        rule_id = rules.create("shop", *parsed()).stored.rule_id
        edits: list[dict[str, Any]] = [
            {"sampleRate": 0.5},
            {"enabled": False},
            {"sampleRate": 1},
            {"compareBy": "service.version"},
        ]
        numbers = [rules.replace("shop", rule_id, *parsed(**keys)).stored.revision for keys in edits]
        assert numbers == [2, 1, 1, 1]
        rates = [active.rule.sample_rate for number in (1, 2) if (active := rules.revision(number))]
        assert rates == [1.0, 0.5]
        assert only(rules).stored.version == 5
    assert rows(store, "SELECT count(*), count(DISTINCT digest) FROM rule_revision") == [(2, 2)]


def test_a_disabled_rule_is_kept_and_does_not_judge(store: Store) -> None:
    """It is among the rules and not among the active ones, until it is enabled."""
    with in_force(store) as rules:
        rule_id = rules.create("shop", *parsed(enabled=False)).stored.rule_id
        assert (len(rules.kept()), rules.active()) == (1, ())
        assert rules.replace("shop", rule_id, *parsed()).active in rules.active()


def test_rules_of_a_tenant_take_no_room_of_others(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each tenant, and the operator, has its own limit of rules, whatever others have."""
    monkeypatch.setattr(rule_change, "MAX_OF_TENANT", 2)
    monkeypatch.setattr(rule_change, "MAX_RULES", 3)
    with in_force(store) as rules:
        for tenant, most in (("acme", 2), ("beta", 2), ("", 3)):
            for number in range(most):
                rules.create(f"shop {tenant} {number}", *parsed(), tenant=tenant)
            with pytest.raises(Conflict, match=rf"no more than {most} rules of .* \(fixed\): delete"):
                rules.create(f"shop {tenant}", *parsed(), tenant=tenant)
        gone = next(kept for kept in rules.kept() if kept.stored.tenant == "beta")
        rules.delete(gone.stored.project, gone.stored.rule_id)
        rules.create("shop beta", *parsed(), tenant="beta")


def test_what_a_rule_may_spend_is_what_it_says_last(store: Store) -> None:
    """An earlier revision has the budget of the rule's current one, and tells whether the rule is disabled."""
    with in_force(store) as rules:
        rule_id = rules.create("shop", *parsed(budget={"callsPerDay": 100})).stored.rule_id
        rules.replace("shop", rule_id, *parsed(budget={"callsPerDay": 7}, enabled=False))
        first = rules.revision(1)
        assert first is not None
        assert first.rule.budget == Budget(calls_per_day=7)
        assert first.stopped is not None
        assert first.stopped.kind == "rule_disabled"


def test_a_deleted_rule_keeps_its_revisions(store: Store) -> None:
    """A revision of a deleted rule can still be read, marked as deleted; a new rule of that name has another id."""
    with in_force(store) as rules:
        rule_id = rules.create("shop", *parsed()).stored.rule_id
        rules.delete("shop", rule_id)
        assert (rules.active(), rules.kept()) == ((), ())
        gone = rules.revision(1)
        assert gone is not None
        assert (gone.deleted, gone.rule.name, gone.rule_id) == (True, "refunds", rule_id)
        with pytest.raises(NotFound):
            rules.delete("shop", rule_id)
        with pytest.raises(NotFound):
            rules.replace("shop", rule_id, *parsed())
        anew = rules.create("shop", *parsed())
        assert anew.stored.rule_id != rule_id
        assert anew.stored.revision == 2
    assert rows(store, "SELECT count(*) FROM rule") == [(2,)]


def test_a_name_is_taken_once_in_a_project(store: Store) -> None:
    """A second rule of a project is refused the name, but another project may use it, and an edited rule keeps it."""
    with in_force(store) as rules:
        first = rules.create("shop", *parsed())
        other = rules.create("bank", *parsed())
        with pytest.raises(Conflict, match="in the project 'shop' there is a rule 'refunds' already"):
            rules.create("shop", *parsed())
        second = rules.create("shop", *parsed("returns"))
        with pytest.raises(Conflict, match="already"):
            rules.replace("shop", second.stored.rule_id, *parsed())
        rules.replace("shop", first.stored.rule_id, *parsed(sampleRate=0.5))
        with pytest.raises(NotFound):
            rules.replace("shop", other.stored.rule_id, *parsed())


def test_what_a_rule_names_must_be_there(store: Store) -> None:
    """An unknown evaluator, configuration key or connection, or a project other than the URL's, is refused."""
    rules = ActiveRules(store.rulebook, connections=lambda _: {"local", "17"})
    rules.start()
    for keys, key, message in (
        ({"evaluator": "tool_eror"}, "evaluator", "did you mean tool_error"),
        ({"config": {"treshold": 1}}, "config", "treshold"),
        ({"connectionId": "remote"}, "connectionId", "there are: 17, local"),
        ({"project": "bank"}, "project", "'shop'"),
    ):
        with pytest.raises(BadRule) as caught:
            rules.create("shop", *parsed(**keys))
        ((problem),) = caught.value.problems
        assert (problem.key, message in problem.message) == (key, True), problem
    rules.create("shop", *parsed(connectionId="17", project="shop"))
    rules.close()


def test_rules_are_bounded(store: Store, folder: Path) -> None:
    """The number of rules is limited, and a rule beyond the limit is reported with its file."""
    for number in range(MAX_RULES + 1):
        write(folder, **{f"{number:04}": a_text(f"rule {number}")})
    with in_force(store, folder) as rules:
        assert len(rules.active()) == MAX_RULES
        assert messages_of(rules) == [
            (
                f"{MAX_RULES:04}.yaml: not read: a folder may have no more than {MAX_RULES:,} files (fixed): "
                "remove files, or store rules over the API"
            )
        ]
        with pytest.raises(Conflict, match="no more"):
            rules.create("shop", *parsed())


def test_two_hundred_rules_are_stored_once(store: Store, folder: Path) -> None:
    """A folder of that size is active as a whole, and nothing is written when it is read again unchanged."""
    for number in range(200):
        write(folder, **{f"{number:03}": f"# {HOSTILE!a}\n{REFUNDS.replace('refunds', f'rule {number}')}"})
    with in_force(store, folder) as rules:
        assert len(rules.active()) == 200
    versions = "SELECT count(*), max(version), count(DISTINCT revision), max(updated_at) FROM rule"
    before = rows(store, versions)
    with in_force(store, folder) as again:
        assert [active.revision for active in again.active()] == [active.revision for active in rules.active()]
    assert rows(store, versions) == before


def test_hostile_names_arrive_as_they_are(store: Store, folder: Path) -> None:
    """Control characters, quotes and very long names of rules, projects and files change nothing else."""
    write(folder, **{"a\x1b[2Jb": a_text(HOSTILE, project=HOSTILE), LONG: a_text(LONG, project=LONG)})
    (folder / os.fsdecode(b"\xff.yaml")).write_text("name: [", encoding="utf-8")
    with in_force(store, folder) as rules:
        rules.create(HOSTILE + "2", *parsed(HOSTILE))
        assert names(rules) == sorted([HOSTILE, HOSTILE, LONG])
        assert {kept.stored.file for kept in rules.kept()} == {"a\x1b[2Jb.yaml", f"{LONG}.yaml", None}
        (problem,) = messages_of(rules)
        assert problem.startswith("\\xff.yaml:1: is not YAML")
        assert problem.isprintable()
    with in_force(store, folder) as again:
        assert again.active() == rules.active()
    assert {project.name for project in store.rulebook.projects("")} == {HOSTILE, HOSTILE + "2", LONG}


def test_a_folder_is_followed(store: Store, folder: Path) -> None:
    """A new file creates a rule, a change updates it, a rename keeps it, and removing the file deletes it."""
    with in_force(store, folder) as rules:
        assert rules.active() == ()
        write(folder, a=REFUNDS)
        until(lambda: names(rules), lambda seen: seen == ["refunds"])
        first = only(rules)
        assert (first.stored.origin, first.stored.file, first.stored.text) == ("FILE", "a.yaml", REFUNDS)
        write(folder, a=f"{REFUNDS}sampleRate: 0.5\n")
        until(lambda: [active.revision for active in rules.active()], lambda seen: seen == [2])
        (folder / "a.yaml").rename(folder / "b.yml")
        until(lambda: only(rules).stored.file, lambda seen: seen == "b.yml")
        assert only(rules).stored.rule_id == first.stored.rule_id
        (folder / "b.yml").unlink()
        until(lambda: names(rules), lambda seen: seen == [])
        write(folder, c=REFUNDS)
        until(lambda: names(rules), lambda seen: seen == ["refunds"])
        assert (only(rules).stored.rule_id, only(rules).stored.revision) == (first.stored.rule_id, 1)
    assert rows(store, "SELECT count(*) FROM rule") == [(1,)]


def test_a_file_that_goes_wrong_leaves_its_rule_in_force(store: Store, folder: Path) -> None:
    """Each problem has file, line and key, the old rule judges on, and so do the others."""
    write(folder, a=REFUNDS)
    with in_force(store, folder) as rules:
        write(folder, a=REFUNDS.replace("tool_error", "tool_eror").replace("TRACE", "SESSIONS"), b=a_text("other"))
        until(lambda: names(rules), lambda seen: seen == ["other", "refunds"])
        target, evaluator = messages_of(rules)
        assert target == "a.yaml:2: target: must be one of SPAN, TRACE, SESSION (got 'SESSIONS')"
        assert evaluator.startswith("a.yaml:5: evaluator: there is no evaluator 'tool_eror'; did you mean tool_error?")
    with in_force(store, folder) as again:
        assert names(again) == ["other", "refunds"]
        assert messages_of(again) == messages_of(rules)
        write(folder, a=REFUNDS)
        until(lambda: messages_of(again), lambda seen: seen == [])


def test_a_server_starts_with_the_rules_that_are_right(store: Store, folder: Path) -> None:
    """Valid rules are active even if most files of the folder are invalid, and each invalid file is reported."""
    write(folder, a=REFUNDS, b="name: x", c="\t{", d="")
    (folder / "e.yaml").mkdir()
    (folder / "f.yaml").symlink_to(folder / "nowhere")
    (folder / "g.yaml").write_bytes(b"name: \xff")
    (folder / "h.yaml").write_text("#" * 300_000)
    os.mkfifo(folder / "i.yaml")
    (folder / ".hidden.yaml").write_text("[")
    (folder / "notes.txt").write_text("[")
    with in_force(store, folder) as rules:
        assert names(rules) == ["refunds"]
        assert {problem.file[0] for problem in rules.problems} == set("bcdefghi")


def test_files_of_rules_may_end_in_capitals(store: Store, folder: Path) -> None:
    """File endings are case-insensitive, for rules and for the template of a judge."""
    for name, ending in (("a", "yaml"), ("b", "YAML"), ("c", "Yml")):
        (folder / f"{name}.{ending}").write_text(a_text(name), encoding="utf-8")
    (folder / "judge.TXT").write_text("version: 1\n[system]\nIs it right?\n", encoding="utf-8")
    config = {"templateFile": "judge.TXT"}
    (folder / "d.YML").write_text(a_text("d", evaluator="llm_judge", config=config), encoding="utf-8")
    with in_force(store, folder) as rules:
        assert (messages_of(rules), names(rules)) == ([], ["a", "b", "c", "d"])


def test_two_files_with_one_name_are_told_and_the_first_stays(store: Store, folder: Path) -> None:
    """Of two files with one rule name, that of the active rule wins; in different projects they do not conflict."""
    write(folder, m=REFUNDS)
    with in_force(store, folder) as rules:
        write(folder, a=f"{REFUNDS}sampleRate: 0.5", z=REFUNDS, p=f"project: shop\n{REFUNDS}")
        until(lambda: len(rules.problems), lambda count: count == 2)
        expected = "about all projects the file m.yaml has a rule 'refunds' already; this one is left out"
        assert messages_of(rules) == [f"a.yaml:1: name: {expected}", f"z.yaml:1: name: {expected}"]
        assert {kept.stored.file for kept in rules.kept()} == {"m.yaml", "p.yaml"}
        (folder / "m.yaml").unlink()
        until(lambda: len(rules.problems), lambda count: count == 1)
        assert {kept.stored.file for kept in rules.kept()} == {"a.yaml", "p.yaml"}


class SetJustAfter(threading.Event):
    """An event that is set once, right after a wait has ended without it."""

    over = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait, and set the event right after the wait is over."""
        is_set = super().wait(timeout)
        if not is_set and not self.over:
            self.over = True
            self.set()
        return is_set


def test_a_reload_asked_for_as_a_look_begins_is_made(
    store: Store, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A request to reload that arrives just as a wait times out is carried out at the next turn."""
    caplog.set_level(logging.INFO, "collector.live.rules.active_rules")
    rules = ActiveRules(store.rulebook, folder, poll_s=0.01)
    rules._wake = SetJustAfter()
    rules.start()
    try:
        until(lambda: sum("active rules" in message for message in caplog.messages), lambda loads: loads == 2)
    finally:
        rules.close()


def test_files_and_the_api_do_not_take_each_others_names(store: Store, folder: Path) -> None:
    """The second is refused, and a rule from a file cannot be changed over the API."""
    with in_force(store, folder) as rules:
        made = rules.create("shop", *parsed())
        write(folder, a=f"project: shop\n{REFUNDS}", b=a_text("mine", project="shop"))
        until(lambda: names(rules), lambda seen: seen == ["mine", "refunds"])
        ((problem),) = messages_of(rules)
        assert problem.startswith(
            "a.yaml:2: name: in the project 'shop' there is a rule 'refunds' already, which the API"
        )
        with pytest.raises(Conflict, match=r"which the file b.yaml has"):
            rules.create("shop", *parsed("mine"))
        (of_file,) = [kept.stored.rule_id for kept in rules.kept() if kept.stored.origin == "FILE"]
        with pytest.raises(Conflict, match=r"comes from the file b.yaml"):
            rules.replace("shop", of_file, *parsed("mine"))
        with pytest.raises(Conflict, match=r"comes from the file b.yaml"):
            rules.delete("shop", of_file)
        rules.delete("shop", made.stored.rule_id)
        rules.reload_soon()
        until(lambda: messages_of(rules), lambda seen: seen == [])
        assert names(rules) == ["mine", "refunds"]


def test_a_folder_that_cannot_be_read_leaves_its_rules_in_force(store: Store, folder: Path, tmp_path: Path) -> None:
    """A disk that is not mounted deletes no rule; a server without a folder has no rules from files."""
    write(folder, a=REFUNDS)
    with in_force(store, folder) as rules:
        folder.rename(tmp_path / "away")
        until(lambda: messages_of(rules), lambda seen: seen == [f"{folder}: cannot be read: No such file or directory"])
        assert names(rules) == ["refunds"]
    with in_force(store, folder) as again:
        assert names(again) == ["refunds"]
        (tmp_path / "away").rename(folder)
        until(lambda: messages_of(again), lambda seen: seen == [])
    with in_force(store) as without:
        assert without.kept() == ()
    with in_force(store, folder) as back:
        assert back.active() == rules.active()


def test_a_file_that_is_being_written_is_not_read_in_half(store: Store, folder: Path) -> None:
    """While a file keeps changing, the rule that it held stays; half of a rule may be a rule as well."""
    write(folder, a=REFUNDS)
    with in_force(store, folder, poll_s=0.05) as rules:
        before = rules.active()
        with (folder / "a.yaml").open("w") as file:
            for line in f"{REFUNDS}sampleRate: 0.5\n".splitlines(keepends=True):
                file.write(line)
                file.flush()
                assert rules.active() == before
                time.sleep(0.02)
        until(lambda: [active.rule.sample_rate for active in rules.active()], lambda seen: seen == [0.5])
    assert rows(store, "SELECT count(*) FROM rule_revision") == [(2,)]


def test_every_executor_kind_is_that_of_the_evaluator(store: Store, folder: Path) -> None:
    """The kind is check without a model, judge with one, and code for a program of the operator."""
    made: dict[str, dict[str, Any]] = {
        "check": {},
        "judge": {"evaluator": None, "criteria": "Be kind."},
        "code": {"evaluator": "code_judge", "config": {"script": ["judge.py"]}},
        "optional without": {"evaluator": "tool_name_reliability"},
        "optional": {"evaluator": "tool_name_reliability", "connectionId": "local"},
    }
    write(folder, **{name: a_text(name, **keys) for name, keys in made.items()})
    with in_force(store, folder) as rules:
        executor_kinds = {active.rule.name: active.executor_kind for active in rules.active()}
    assert executor_kinds == {name: name.split()[0].replace("optional", "judge") for name in made} | {
        "optional without": "check"
    }


def test_only_files_may_name_programs(store: Store) -> None:
    """A rule from the API that runs a program is refused."""
    with in_force(store) as rules, pytest.raises(BadRule, match="only a rule from a file may name it"):
        rules.create("shop", *parsed(evaluator="code_judge", config={"script": ["judge.py"]}))


def test_a_file_of_another_editor_is_a_rule(store: Store, folder: Path) -> None:
    """A byte order mark and the line ends of Windows make no difference, also to the rule's document."""
    (folder / "a.yaml").write_bytes(b"\xef\xbb\xbf" + REFUNDS.replace("\n", "\r\n").encode())
    with in_force(store, folder) as rules:
        assert only(rules).active.rule == parse_rule(REFUNDS).rule
        assert rule_document(only(rules), {}).conditions == [{"field": "tool_name", "op": "=", "value": "refund"}]


def test_yaml_of_a_file_and_json_of_the_api_say_the_same(store: Store, folder: Path) -> None:
    """One rule written both ways has one digest."""
    write(folder, a=REFUNDS)
    with in_force(store, folder) as rules:
        text = json.dumps(only(rules).active.rule.document())
        assert parse_json(text).rule.revision == parse_rule(REFUNDS).rule.revision
