"""Access decisions, without a server."""

from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.access import secret
from collector.access.attempts import ALLOWED, REGAINED_S, Attempts
from collector.access.caller import ANYBODY, Caller, RequestInfo
from collector.access.errors import CrossOrigin, Forbidden, TooMany
from collector.access.journal import AuditJournal
from collector.access.keyring import KeyDraft, Keyring
from collector.access.origin import Names, host_of, is_loopback
from collector.access.pace import KeyRateLimits, Rates
from collector.access.permission import GRANTS, Permission, Requirements, Role, needs, requirements_of
from storage.errors import Conflict, NotFound
from storage.operation.access import AuditFilter
from tests.storing import a_store

DAY_US = 86_400_000_000
LASTING = KeyDraft(name="admin", role=Role.ADMIN)


def a_caller(tenant: str) -> Caller:
    """Build an administrator of a tenant."""
    return Caller(role=Role.ADMIN, key_id="key_0", tenant=tenant, sees_all=False)


def test_roles_grant_what_the_page_says() -> None:
    """INGEST only sends, VIEWER only reads, REVIEWER only reviews, EDITOR also writes, ADMIN does everything."""
    granted = {role: {each for each in GRANTS[role] if each is not Permission.OPEN} for role in Role}
    assert granted[Role.INGEST] == {Permission.SEND}
    assert granted[Role.REVIEWER] == {Permission.SEE_QUEUES, Permission.REVIEW}
    assert granted[Role.VIEWER] == {Permission.READ, Permission.SEE_QUEUES}
    assert granted[Role.EDITOR] == {*granted[Role.VIEWER], *granted[Role.REVIEWER], Permission.SEND, Permission.WRITE}
    assert granted[Role.ADMIN] == {*granted[Role.EDITOR], Permission.ADMINISTER}


def test_a_route_that_says_nothing_is_read_or_written_and_closed_to_tenants() -> None:
    """The method alone decides, and tenants are not assumed to be kept apart."""

    def silent() -> None:
        """Say nothing."""

    @needs(Permission.OPEN)
    def declared() -> None:
        """Say something."""

    assert requirements_of(silent, "GET") == Requirements(permission=Permission.READ)
    assert {requirements_of(silent, method) for method in ("POST", "PUT", "PATCH", "DELETE", "X")} == {
        Requirements(permission=Permission.WRITE)
    }
    assert requirements_of(declared, "POST") == Requirements(permission=Permission.OPEN)


def test_the_first_key_has_to_last(tmp_path: Path) -> None:
    """A key that could not open the server again does not close it, and nothing is stored then."""
    with a_store(tmp_path) as store:
        keyring = Keyring(store.access, None)
        for draft in (
            KeyDraft(name="x", role=Role.EDITOR),
            KeyDraft(name="x", role=Role.ADMIN, tenant="acme"),
            KeyDraft(name="x", role=Role.ADMIN, expires_us=2**62),
        ):
            with pytest.raises(Conflict):
                keyring.create(draft, ANYBODY)
        assert keyring.is_open
        keyring.create(LASTING, ANYBODY)
        assert not keyring.is_open


def test_a_tenant_with_all_its_keys_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are counted by tenant: the refusal of one more says what to do, and others make theirs."""
    monkeypatch.setattr("collector.access.keyring.MAX_OF_TENANT", 2)
    with a_store(tmp_path) as store:
        keyring = Keyring(store.access, None)
        keyring.create(LASTING, ANYBODY)
        of_a, of_b = (KeyDraft(name="k", role=Role.VIEWER, tenant=tenant) for tenant in ("a", "b"))
        made = [keyring.create(of_a, ANYBODY)[0] for _ in range(2)]
        with pytest.raises(Conflict, match=r"no more than 2 keys of tenant 'a' \(fixed\): delete some first"):
            keyring.create(of_a, ANYBODY)
        keyring.create(of_b, ANYBODY)
        keyring.create(LASTING, ANYBODY)
        keyring.delete(made[0].key_id, ANYBODY)
        keyring.create(of_a, ANYBODY)


def test_the_last_credential_stays(tmp_path: Path) -> None:
    """The last ADMIN key that lasts can be neither disabled nor deleted, unless there is the operator's key."""
    with a_store(tmp_path) as store:
        keyring = Keyring(store.access, None)
        first, _ = keyring.create(LASTING, ANYBODY)
        viewer, _ = keyring.create(KeyDraft(name="v", role=Role.VIEWER), ANYBODY)
        for change in (keyring.disable, keyring.delete):
            with pytest.raises(Conflict):
                change(first.key_id, ANYBODY)
        keyring.delete(viewer.key_id, ANYBODY)
        keyring.create(LASTING, ANYBODY)
        assert not keyring.disable(first.key_id, ANYBODY).enabled
        keyring.delete(first.key_id, ANYBODY)
        with_operator = Keyring(store.access, "operator-key-of-the-tests")
        (last,) = with_operator.keys(ANYBODY)
        with_operator.delete(last.key_id, ANYBODY)
        assert not with_operator.is_open


def test_a_key_that_opens_nothing_keeps_the_server_closed(tmp_path: Path) -> None:
    """Keys that are all disabled or expired do not open the server, and without the operator's key it says so."""
    with a_store(tmp_path) as store:
        keyring = Keyring(store.access, "operator-key-of-the-tests")
        key, text = keyring.create(KeyDraft(name="x", role=Role.ADMIN, expires_us=5), ANYBODY)
        assert keyring.find(secret.digest(text), 4) is not None
        assert keyring.find(secret.digest(text), 5) is None
        keyring.disable(key.key_id, ANYBODY)
        assert keyring.find(secret.digest(text), 4) is None
        later = Keyring(store.access, None)
        assert not later.is_open
        assert not later.has_lasting_credential


def test_a_tenant_administers_its_own_keys(tmp_path: Path) -> None:
    """It sees no others, and makes none for another tenant."""
    with a_store(tmp_path) as store:
        keyring = Keyring(store.access, "operator-key-of-the-tests")
        other, _ = keyring.create(KeyDraft(name="o", role=Role.VIEWER, tenant="other"), ANYBODY)
        own, _ = keyring.create(KeyDraft(name="a", role=Role.VIEWER), a_caller("acme"))
        assert own.tenant == "acme"
        assert [key.key_id for key in keyring.keys(a_caller("acme"))] == [own.key_id]
        assert len(keyring.keys(ANYBODY)) == 2
        for tenant in ("other", ""):
            with pytest.raises(Forbidden):
                keyring.create(KeyDraft(name="x", role=Role.VIEWER, tenant=tenant), a_caller("acme"))
        for change in (keyring.disable, keyring.delete):
            with pytest.raises(NotFound):
                change(other.key_id, a_caller("acme"))


def test_a_key_is_nowhere_in_the_files(tmp_path: Path) -> None:
    """After a checkpoint and the end of the store, no file holds a key's text."""
    with a_store(tmp_path) as store:
        _, text = Keyring(store.access, None).create(LASTING, ANYBODY)
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not [data for data in files if text.encode() in data]
    assert secret.digest(text) in b"".join(files)


def test_when_a_key_was_used_is_stored_seldom(tmp_path: Path) -> None:
    """The list shows the latest use; it is written to the file after ten minutes."""
    with a_store(tmp_path) as store:
        keyring = Keyring(store.access, None)
        key, text = keyring.create(LASTING, ANYBODY)
        journal = AuditJournal(store.access, keyring, kept=1000)

        def used(at_us: int) -> tuple[int | None, int | None]:
            keyring.find(secret.digest(text), at_us)
            journal.store()
            return store.access.keys()[0].last_used_us, keyring.keys(ANYBODY)[0].last_used_us

        assert key.last_used_us is None
        assert used(DAY_US) == (DAY_US, DAY_US)
        assert used(DAY_US + 599_000_000) == (DAY_US, DAY_US + 599_000_000)
        assert used(DAY_US + 601_000_000) == (DAY_US + 601_000_000, DAY_US + 601_000_000)


def test_keys_are_random_and_masked() -> None:
    """Two keys differ, carry 256 bits, and are hidden wherever they turn up."""
    first, second = secret.new_key(), secret.new_key()
    assert first != second
    assert len(first) == len("tj_") + 43
    assert secret.masked(f"/api/v1/{first}/x {second}") == "/api/v1/tj_***/x tj_***"


@pytest.mark.parametrize(
    "header, key",
    [(None, None), ("Bearer x", "x"), ("bearer  x ", "x"), ("Basic x", ""), ("x", ""), ("", ""), ("Bearer", "")],
)
def test_a_key_is_what_follows_bearer(header: str | None, key: str | None) -> None:
    """No header is not a key; any other header is a wrong one."""
    assert secret.bearer(header) == key


def test_guessing_is_slowed_down() -> None:
    """After `ALLOWED` wrong keys an address must wait, and regains one try at a time."""
    attempts = Attempts()
    for number in range(ALLOWED):
        assert attempts.wait_s("192.0.2.1", b"%d" % number, 0) == 0
        attempts.failed("192.0.2.1", b"%d" % number, 0)
    assert attempts.wait_s("192.0.2.1", b"the right one", 0) == REGAINED_S
    assert attempts.wait_s("192.0.2.2", b"guess", 0) == 0
    assert attempts.wait_s("192.0.2.1", b"guess", REGAINED_S) == 0
    attempts.failed("192.0.2.1", b"guess", REGAINED_S)
    assert attempts.wait_s("192.0.2.1", b"another", REGAINED_S) == REGAINED_S


def test_a_wrong_key_that_is_shown_again_is_no_guess() -> None:
    """An old key gets 401 each time, and locks out no client that has another one."""
    attempts = Attempts()
    for _ in range(2 * ALLOWED):
        assert attempts.wait_s("192.0.2.1", b"old", 0) == 0
        attempts.failed("192.0.2.1", b"old", 0)
    for number in range(ALLOWED - 1):
        assert attempts.wait_s("192.0.2.1", b"%d" % number, 0) == 0
        attempts.failed("192.0.2.1", b"%d" % number, 0)
    assert attempts.wait_s("192.0.2.1", b"another", 0) > 0
    assert attempts.wait_s("192.0.2.1", b"old", 0) == 0


def test_a_key_that_was_good_is_not_slowed_down() -> None:
    """Guesses from the same address do not lock out clients that were authenticated before."""
    attempts = Attempts()
    attempts.succeeded("192.0.2.1", b"good")
    for number in range(2 * ALLOWED):
        attempts.failed("192.0.2.1", b"%d" % number, 0)
    assert attempts.wait_s("192.0.2.1", b"good", 0) == 0
    assert attempts.wait_s("192.0.2.1", b"guess", 0) > 0


@pytest.mark.parametrize("address", ["2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:0:1::"])
def test_an_ipv6_network_is_one_address(address: str) -> None:
    """A machine that has 2^64 addresses has no more tries."""
    attempts = Attempts()
    for number in range(ALLOWED):
        attempts.failed("2001:db8::2", b"%d" % number, 0)
    assert attempts.wait_s(address, b"guess", 0) > 0
    assert attempts.wait_s("2001:db8:0:1::1", b"guess", 0) == 0
    assert attempts.wait_s("::ffff:192.0.2.1", b"guess", 0) == 0


@given(st.lists(st.tuples(st.floats(0, 30), st.integers(0, 5000)), max_size=60))
def test_a_key_never_sends_more_than_it_may(steps: list[tuple[float, int]]) -> None:
    """Whatever the order of requests, their bytes stay within the rate, one burst, and one request more."""
    pace, now_s, sent, largest = KeyRateLimits(Rates(nbytes=100, requests=1000)), 0.0, 0, 0
    for pause_s, nbytes in steps:
        now_s += pause_s
        try:
            pace.admit("k", now_s)
        except TooMany:
            continue
        pace.sent("k", nbytes, now_s)
        sent, largest = sent + nbytes, max(largest, nbytes)
    assert sent <= 100 * now_s + 1000 + largest


def test_without_rates_nothing_is_counted() -> None:
    """A server that sets no rates lets each key send as much as it likes."""
    pace = KeyRateLimits(Rates())
    for _ in range(1000):
        pace.admit("k", 0)
        pace.sent("k", 1 << 30, 0)


NAMES = Names(bound="127.0.0.1:8080", allowed=("Traces.Example",), origins=("https://app.example",))


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8080", "localhost", "LOCALHOST:9", "[::1]:8080", "a.localhost:1", "traces.example:80", None]
)
def test_own_names_are_known(host: str | None) -> None:
    """Names of the machine, the one that is bound, and those of the settings pass."""
    NAMES.check(host, None, changes=True)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example", "", "192.0.2.1", "[::2]"],
)
def test_other_names_are_refused(host: str) -> None:
    """A page that points a name of its own here is not answered."""
    with pytest.raises(CrossOrigin):
        NAMES.check(host, None, changes=False)


def test_a_server_on_all_addresses_answers_to_each() -> None:
    """There an address is a name of its own, which no page can point elsewhere; a word is not."""
    wide = Names(bound="0.0.0.0:8080")
    wide.check("192.0.2.1:8080", None, changes=True)
    with pytest.raises(CrossOrigin):
        wide.check("evil.example", None, changes=True)


@pytest.mark.parametrize("origin", ["http://127.0.0.1:8080", "https://app.example"])
def test_own_pages_may_write(origin: str) -> None:
    """Pages of the server itself, and those that the settings name."""
    NAMES.check("127.0.0.1:8080", origin, changes=True)


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9", "https://app.example.evil", ""]
)
def test_other_pages_may_not_write(origin: str) -> None:
    """A form or a script of another site is refused if it would change something; the browser prevents its reading."""
    NAMES.check("127.0.0.1:8080", origin, changes=False)
    with pytest.raises(CrossOrigin):
        NAMES.check("127.0.0.1:8080", origin, changes=True)


@pytest.mark.parametrize(
    "address, host", [("127.0.0.1:1", "127.0.0.1"), ("[::1]:1", "::1"), ("::1", "::1"), ("Name", "name")]
)
def test_the_host_of_an_address(address: str, host: str) -> None:
    """With and without a port, and for IPv6."""
    assert host_of(address) == host


def test_loopback_is_this_machine() -> None:
    """Names and addresses of it, and nothing else."""
    assert all(map(is_loopback, ("localhost", "127.9.9.9", "::1")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.0.2.1", "evil.example", "")))


def test_alike_entries_are_one_with_a_count(tmp_path: Path) -> None:
    """A flood of the same refusal is a row; different ones stay apart, in order."""
    with a_store(tmp_path) as store:
        journal = AuditJournal(store.access, Keyring(store.access, None), kept=1000)
        for _ in range(500):
            journal.note(RequestInfo(method="GET", path="/a", address="192.0.2.1"), None, 401, "no")
        journal.note(RequestInfo(method="GET", path="/b", address="192.0.2.1"), None, 401, "no")
        journal.store()
        entries = [(entry.path, entry.times) for _, entry in store.access.audit(AuditFilter(), before=None, limit=10)]
        assert entries == [("/b", 1), ("/a", 500)]


def test_the_audit_is_bounded(tmp_path: Path) -> None:
    """Of many different entries at once all but a thousand are counted in one, and of all times the latest stay."""
    with a_store(tmp_path) as store:
        journal = AuditJournal(store.access, Keyring(store.access, None), kept=1200)
        for step in range(2):
            for number in range(1500):
                journal.note(RequestInfo(method="GET", path=f"/{step}/{number}", address=""), None, 401)
            journal.store()
        entries = [entry for _, entry in store.access.audit(AuditFilter(), before=None, limit=5000)]
        assert len(entries) == 1200
        assert entries[0].times == 500
        assert entries[0].detail == "(more than was kept apart)"
        assert journal.noted == {401: 3000}


def test_what_could_not_be_stored_stays_noted(tmp_path: Path) -> None:
    """While nothing can be written entries wait, and are stored once, afterwards."""
    with a_store(tmp_path / "a") as closing, a_store(tmp_path / "b") as store:
        journal = AuditJournal(closing.access, Keyring(closing.access, None), kept=1000)
        journal.note(RequestInfo(method="GET", path="/a", address=""), None, 401)
        closing._writer.close(5)
        with pytest.raises(Exception, match="closing"):
            journal.store()
        journal._access = store.access
        journal.store()
        journal.store()
        assert [entry.times for _, entry in store.access.audit(AuditFilter(), before=None, limit=9)] == [1]


def test_the_audit_is_bounded_while_nothing_can_be_written(tmp_path: Path) -> None:
    """Entries that arrive during failing writes are counted beyond a thousand different ones, and none is lost."""
    with a_store(tmp_path / "a") as closing, a_store(tmp_path / "b") as store:
        paths = map(str, range(10_000))

        class Busy(Keyring):
            def uses_to_note(self) -> dict[str, int]:
                for path in islice(paths, 900):
                    journal.note(RequestInfo(method="GET", path=path, address=""), None, 401)
                return {}

        journal = AuditJournal(closing.access, Busy(closing.access, None), kept=5000)
        journal.note(RequestInfo(method="GET", path="/first", address=""), None, 401)
        closing._writer.close(5)
        for _ in range(4):
            with pytest.raises(Exception, match="closing"):
                journal.store()
        journal._access = store.access
        journal.store()
        times = [entry.times for _, entry in store.access.audit(AuditFilter(), before=None, limit=9_000)]
        assert (len(times), sum(times)) == (1001, 3601)
