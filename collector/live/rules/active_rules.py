"""The active rules, from the API and from files of a folder, in the form that matching and judging read."""

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeAlias

from collector.evaluation.rule_check import check_evaluator
from collector.follower import WaitLog
from collector.live.active import ActiveRule, ExecutorKind, draft_of
from collector.live.rules.executor_kinds import executor_kind_of
from collector.live.rules.rule_folder import FileProblem, FileRule, Reading, RuleFolder, Stamp
from collector.live.rules.rule_order import wrong_with_order
from rules.errors import BadRule, Problem
from rules.rule import Rule
from rules.rule_text import RuleText, stored_rule
from storage.errors import Conflict, NotFound, Overloaded
from storage.judging.rule_change import StoredRule
from storage.judging.rulebook import Rulebook

log = logging.getLogger(__name__)

Seen: TypeAlias = Collection[int] | None
"""Versions of a rule that the client has seen (`If-Match`); None: any."""

_POLL_S: Final = 1.0
"""Interval of checks of the folder, which cost some 10 µs a file. A changed folder is read once two checks in a row
find it in the same state, because a half-written rule may be valid; a file that keeps changing delays all.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedRule:
    """A stored rule, and its active revision."""

    stored: StoredRule
    active: ActiveRule


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownRevision:
    rule_id: str
    tenant: str
    rule: Rule
    executor_kind: ExecutorKind


@dataclass(frozen=True, slots=True, kw_only=True)
class _Snapshot:
    kept: Mapping[str, LoadedRule]  # by id, oldest first
    active: tuple[ActiveRule, ...]
    problems: tuple[FileProblem, ...]
    by_revision: dict[int, ActiveRule] = field(default_factory=dict)  # by revision: read for each request to a judge


class ActiveRules:
    """All rules. Read from any thread without a lock; changed by the API and by the files of a folder.

    `connections` returns the names and ids of the connections that a rule of a tenant may name; without it, rules may
    name any.
    """

    def __init__(
        self,
        rulebook: Rulebook,
        folder: Path | None = None,
        *,
        connections: Callable[[str], Collection[str]] | None = None,
        poll_s: float = _POLL_S,
    ) -> None:
        self._rulebook = rulebook
        self._folder = None if folder is None else RuleFolder(folder)
        self._connections = connections
        self._poll_s = poll_s
        self._revisions: dict[int, _KnownRevision] = {}
        self._now = _Snapshot(kept={}, active=(), problems=())
        self._refreshing = threading.Lock()
        self._loaded: Stamp | None = None  # how the folder looked when it was read last; None: read it again
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._waits = WaitLog(log, "rules from files cannot be stored yet: %s")
        self._thread = threading.Thread(target=self._run, name="rules", daemon=True)

    def start(self) -> None:
        """Read the stored rules, then the folder, and follow it from then on. An invalid file does not stop it."""
        self.refresh()
        self._load()
        self._thread.start()

    def close(self) -> None:
        """Stop following the folder."""
        self._stopping.set()
        self._wake.set()
        self._thread.join()

    def reload_soon(self) -> None:
        """Request that the folder is read soon, whether or not it seems to have changed."""
        self._wake.set()

    @property
    def problems(self) -> tuple[FileProblem, ...]:
        """Return the problems that were found in files when the current rules were read."""
        return self._now.problems

    def active(self) -> tuple[ActiveRule, ...]:
        """Return the rules that judge: enabled, and not deleted. Never changed in place."""
        return self._now.active

    def kept(self) -> tuple[LoadedRule, ...]:
        """Return all rules, enabled or not, oldest first."""
        return tuple(self._now.kept.values())

    def find(self, project: str | None, rule_id: str) -> LoadedRule:
        """Return the rule with this id, if it is about the project or about all projects.

        Raises:
            NotFound: no such rule has this id.
        """
        kept = self._now.kept.get(rule_id)
        if kept is None or kept.stored.project not in {project, None}:
            where = "about all projects" if project is None else f"in the project {project!r}"
            raise NotFound(f"{where} there is no rule {rule_id}")
        return kept

    def revision(self, number: int) -> ActiveRule | None:
        """Return a revision, also of a deleted rule; None if there is none or it is invalid.

        `enabled` and the budget are the rule's current ones; a deleted rule has those of the revision.
        """
        now = self._now
        if number in now.by_revision:
            return now.by_revision[number]
        if number not in self._revisions:
            self._learn([number])
        known = self._revisions.get(number)
        if known is None:
            return None
        kept = now.kept.get(known.rule_id)
        if kept is None:
            active = _active(number, known, enabled=True, deleted=True)
        else:
            active = _active(number, known, enabled=kept.stored.enabled)
            active = replace(active, rule=replace(active.rule, budget=kept.active.rule.budget))
        now.by_revision[number] = active
        return active

    def problem_of(self, active: ActiveRule) -> str | None:
        """Return what is wrong with a rule's `after`, such as that it names a disabled rule; None if it is valid."""
        others = [kept.active for kept in self.kept() if kept.stored.rule_id != active.rule_id]
        return wrong_with_order(active, others, in_force=True)

    def checked(self, project: str | None, parsed: RuleText, *, tenant: str = "", rule_id: str | None = None) -> Rule:
        """Check a rule of the API for a tenant and a project (None: all projects), and return it with the project set.

        `rule_id` is the stored rule that it would replace, which is left out of the check of `after`.

        Raises:
            BadRule: the project differs; the evaluator is not configured well, or runs a program; a connection or the
                rule of `after` does not exist or has an unsuitable target; or rules would wait for each other.
        """
        rule, problems = parsed.rule, list[Problem]()

        def wrong_at(key: str, message: str) -> None:
            problems.append(Problem(line=parsed.lines.get(key, 1), key=key, message=message))

        if rule.project not in {project, None}:
            right = "left out here" if project is None else f"that of the URL, {project!r}, or left out"
            wrong_at("project", f"must be {right} (got {rule.project!r})")
        try:
            check_evaluator(parsed)
            if executor_kind_of(rule) == "code":
                message = f"{rule.evaluator} runs a program on this machine, so only a rule from a file may name it"
                wrong_at("evaluator", message)
        except BadRule as error:
            problems += error.problems
        if self._connections is not None and (rule.connection is not None or rule.jury):
            known = sorted(self._connections(tenant))
            for key, named in (("connectionId", rule.connection), *(("jury", each) for each in rule.jury)):
                if named is not None and named not in known:
                    wrong_at(key, f"there is no connection {named!r}; there are: {', '.join(known) or 'none'}")
        if problems:
            raise BadRule(problems)
        rule = replace(rule, project=project)
        others = [kept.active for kept in self.kept() if kept.stored.rule_id != rule_id]
        if wrong := wrong_with_order(_unnumbered(rule, rule_id or "", tenant), others):
            raise BadRule([Problem(line=parsed.lines.get("after", 1), key="after", message=wrong)])
        return rule

    def create(self, project: str | None, parsed: RuleText, text: str, *, tenant: str = "") -> LoadedRule:
        """Store and activate a rule of a tenant about a project, or about all projects.

        Raises:
            BadRule: the rule cannot be used.
            Conflict: the name is taken, or there are too many rules.
            Overloaded: the database cannot be written now.
        """
        rule = self.checked(project, parsed, tenant=tenant)
        draft = draft_of(rule, tenant=tenant, origin="API", file=None, text=text)
        return self._changed(lambda: self._rulebook.create(draft))

    def replace(
        self, project: str | None, rule_id: str, parsed: RuleText, text: str, *, seen: Seen = None
    ) -> LoadedRule:
        """Replace the text of a rule; it gets a new revision only if its meaning is new to the rule.

        If `seen` is given, the rule must have one of these versions.

        Raises:
            NotFound: no rule has this id.
            Stale: the rule has another version.
            BadRule: the rule cannot be used.
            Conflict: the name is taken, or the rule comes from a file.
            Overloaded: the database cannot be written now.
        """
        kept = self.find(project, rule_id)
        self._refuse_file(kept)
        tenant = kept.stored.tenant
        rule = self.checked(project, parsed, tenant=tenant, rule_id=rule_id)
        draft = draft_of(rule, tenant=tenant, origin="API", file=None, text=text)
        return self._changed(lambda: self._rulebook.replace(rule_id, draft, seen=seen))

    def delete(self, project: str | None, rule_id: str, *, seen: Seen = None) -> None:
        """Delete a rule, if it has one of the versions in `seen`; its results stay.

        Raises:
            NotFound: no rule has this id.
            Stale: the rule has another version.
            Conflict: the rule comes from a file.
            Overloaded: the database cannot be written now.
        """
        self._refuse_file(self.find(project, rule_id))
        try:
            self._rulebook.delete(rule_id, seen=seen)
        finally:
            self.refresh()

    @staticmethod
    def _refuse_file(kept: LoadedRule) -> None:
        if kept.stored.origin == "FILE":
            message = f"the rule {kept.stored.name!r} comes from the file {kept.stored.file}; change it there"
            raise Conflict(message)

    def _changed(self, change: Callable[[], StoredRule]) -> LoadedRule:
        try:
            stored = change()
        finally:
            self.refresh()  # also after a failure: the change may have been stored
        return self._now.kept[stored.rule_id]

    def refresh(self, problems: tuple[FileProblem, ...] | None = None) -> None:
        """Read the stored rules; `problems` replaces the known problems of files."""
        with self._refreshing:
            living = [rule for rule in self._rulebook.rules() if rule.deleted_at_us is None]
            self._learn([rule.revision for rule in living if rule.revision not in self._revisions])
            kept = {rule.rule_id: each for rule in living if (each := self._kept(rule)) is not None}
            active = tuple(each.active for each in kept.values() if each.stored.enabled)
            current = self._now.problems if problems is None else problems
            self._now = _Snapshot(kept=kept, active=active, problems=current)

    def _kept(self, stored: StoredRule) -> LoadedRule | None:
        known = self._revisions.get(stored.revision)
        if known is None:
            return None
        return LoadedRule(stored=stored, active=_active(stored.revision, known, enabled=stored.enabled))

    def _learn(self, numbers: Sequence[int]) -> None:
        for each in self._rulebook.revisions(numbers) if numbers else ():
            try:
                rule = stored_rule(each.document)
            except BadRule as error:
                log.error("revision %d of the rule %s cannot be used: %s", each.revision, each.rule_id, error)  # noqa: TRY400 - the traceback of a parser does not help
                continue
            self._revisions[each.revision] = _KnownRevision(
                rule_id=each.rule_id, tenant=each.tenant, rule=rule, executor_kind=executor_kind_of(rule)
            )

    def _run(self) -> None:
        seen: Stamp | None = None
        while not self._stopping.is_set():
            if is_woken := self._wake.wait(None if self._folder is None else self._poll_s):
                self._wake.clear()  # only if woken: a wake-up right after the wait is kept for the next turn
            if self._stopping.is_set():
                return
            stamp = None if self._folder is None else self._folder.stamp()
            if is_woken or (stamp == seen and stamp != self._loaded):
                self._load()
            seen = stamp

    def _load(self) -> None:
        """Read the folder and activate its rules; if that fails, the active rules stay."""
        stamp = None if self._folder is None else self._folder.stamp()
        try:
            known, problems = self.problems, self._follow()
            self.refresh(problems)
            self._loaded = stamp
            self._waits.end()
        except Overloaded as error:
            self._loaded = None
            self._waits.note(error)
            return
        except Exception:  # noqa: BLE001 - the top of a thread: rules stay as they are, and it is tried again
            self._loaded = None
            log.exception("rules from files could not be activated")
            return
        for problem in problems:
            if problem not in known:
                log.error("rules: %s", problem)
        log.info("%d active rules, %d problems in rule files", len(self._now.active), len(problems))

    def _follow(self) -> tuple[FileProblem, ...]:
        if self._folder is None:
            self._rulebook.follow_files([], keep=())
            return ()
        files = [rule for rule in self._rulebook.rules() if rule.origin == "FILE" and rule.deleted_at_us is None]
        try:
            reading = self._folder.read({(rule.project, rule.name): rule.file or "" for rule in files})
        except OSError as error:
            return (
                FileProblem(file=str(self._folder.path), line=0, key="", message=f"cannot be read: {error.strerror}"),
            )
        return reading.problems + self._put_in_force(reading)

    def _put_in_force(self, reading: Reading) -> tuple[FileProblem, ...]:
        misplaced = self._misplaced(reading)
        left_out = {problem.file for problem in misplaced}
        drafts = [
            draft_of(each.rule, tenant="", origin="FILE", file=each.file, text=each.text)
            for each in reading.rules
            if each.file not in left_out
        ]
        lines = {each.file: each.parsed.lines.get("name", 1) for each in reading.rules}
        refused = self._rulebook.follow_files(drafts, keep={*reading.unusable, *left_out})
        return misplaced + tuple(
            FileProblem(file=draft.file or "", line=lines[draft.file or ""], key="name", message=message)
            for draft, message in refused
        )

    def _misplaced(self, reading: Reading) -> tuple[FileProblem, ...]:
        """Return problems with `after` in rules of files; an invalid file counts with its rule that is active.

        A rule with such a problem is not updated, so `after` of another may now name a rule that does not exist. Repeat
        until no problem is new.
        """
        standing = {kept.stored.file: kept.active for kept in self.kept() if kept.stored.origin == "FILE"}
        of_api = [kept.active for kept in self.kept() if kept.stored.origin != "FILE"]
        kept_files = [active for file, active in standing.items() if file in reading.unusable]
        ids = {(active.rule.project, active.rule.name): active.rule_id for active in standing.values()}
        candidates = {
            each.file: (each, _unnumbered(each.rule, ids.get(each.identity, ""), "")) for each in reading.rules
        }
        problems: dict[str, FileProblem] = {}
        while True:
            stays = [standing[file] for file in problems if file in standing]
            fitting = [active for file, (_, active) in candidates.items() if file not in problems]
            others = [*of_api, *kept_files, *stays, *fitting]
            wrong_files = {
                file: _of_order(each, wrong)
                for file, (each, active) in candidates.items()
                if file not in problems
                and (wrong := wrong_with_order(active, [other for other in others if other is not active]))
            }
            if not wrong_files:
                return tuple(problems.values())
            problems |= wrong_files


def _unnumbered(rule: Rule, rule_id: str, tenant: str) -> ActiveRule:
    return ActiveRule(tenant=tenant, rule_id=rule_id, revision=0, rule=rule, executor_kind=executor_kind_of(rule))


def _of_order(each: FileRule, wrong: str) -> FileProblem:
    return FileProblem(file=each.file, line=each.parsed.lines.get("after", 1), key="after", message=wrong)


def _active(number: int, known: _KnownRevision, *, enabled: bool, deleted: bool = False) -> ActiveRule:
    return ActiveRule(
        tenant=known.tenant,
        rule_id=known.rule_id,
        revision=number,
        rule=replace(known.rule, enabled=enabled),
        executor_kind=known.executor_kind,
        deleted=deleted,
    )
