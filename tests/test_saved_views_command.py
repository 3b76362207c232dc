"""`tracejury saved-views`: named, listed, shown, replaced and deleted, as the pages and the API have them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result

from tests.access import Closed, a_closed_server
from tests.paging import Visit
from tests.serving import a_server, run


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    """Yield one server with keys for all; each test has names of its own."""
    with a_closed_server(tmp_path_factory.mktemp("views") / "data") as closed:
        yield closed


def command(server: Closed, *arguments: str, key: str = "editor") -> Result:
    """Run the command with a key."""
    env = {"TRACEJURY_URL": f"http://{server.running.http}", "TRACEJURY_API_KEY": server.keys[key]}
    return run("saved-views", *arguments, env=env)


def test_a_view_is_saved_shown_and_opened_by_its_link(server: Closed) -> None:
    """A saved view is listed and shown alone, and the printed link opens the list on a page."""
    saved = command(server, "save", "failing shop", "status=error&project=shop")
    assert saved.exit_code == 0, saved.stderr
    link = saved.stdout.removeprefix("failing shop: ").strip()
    shown = command(server, "show", "failing shop").stdout
    assert (link in shown, "  project    shop" in shown, "  status     error" in shown) == (True, True, True)
    listed = command(server, "list").stdout
    assert "project shop, status error" in listed
    with Visit(f"http://{server.running.http}") as visit:
        assert visit.send("/sign-in", "/sign-in", key=server.keys["viewer"]).status_code == 303
        opened = visit.client.get(link, headers={"accept": "text/html"}, follow_redirects=True)
    assert str(opened.url).endswith("/traces?project=shop&status=error")


def test_an_address_of_the_list_is_saved_as_it_is_pasted(server: Closed) -> None:
    """The whole address, its part after the ?, and nothing, which shows all traces."""
    for name, address, kept in (
        ("pasted", "https://traces.example/traces?project=a+b&sort=cost", "project=a+b&sort=cost"),
        ("part", "?text=what%3F", "text=what%3F"),
        ("all of them", "", ""),
    ):
        assert command(server, "save", name, address).exit_code == 0
        assert json.loads(command(server, "show", name, "--json").stdout)["query"] == kept
    assert "all traces" in command(server, "list").stdout


def test_a_name_is_taken_unless_it_is_to_be_replaced(server: Closed) -> None:
    """Saved again it is refused; with --replace it shows something else under the same link."""
    first = command(server, "save", "mine", "status=error")
    again = command(server, "save", "mine", "status=ok")
    assert (again.exit_code, "there is a saved view named 'mine'" in again.stderr) == (1, True)
    replaced = command(server, "save", "mine", "status=ok", "--replace")
    assert (replaced.exit_code, replaced.stdout) == (0, first.stdout)
    assert json.loads(command(server, "show", "mine", "--json").stdout)["query"] == "status=ok"
    assert command(server, "save", "new one", "status=ok", "--replace").exit_code == 0


def test_what_no_list_can_be_asked_is_refused(server: Closed) -> None:
    """The answer names the parameter, and nothing is saved."""
    wrong = command(server, "save", "wrong", "colour=blue")
    assert (wrong.exit_code, "'colour'" in wrong.stderr) == (1, True)
    assert "wrong" not in {each["name"] for each in json.loads(command(server, "list", "--json").stdout)}


def test_a_view_is_deleted_by_its_name_or_its_id(server: Closed) -> None:
    """A deleted view is reported as missing, and so is an unknown name."""
    for by in ("name", "id"):
        assert command(server, "save", "short lived", "model=m").exit_code == 0
        view = json.loads(command(server, "show", "short lived", "--json").stdout)
        assert command(server, "delete", view[by]).stdout == "short lived is deleted\n"
        gone = command(server, "show", "short lived")
        assert (gone.exit_code, "short lived is not a saved view" in gone.stderr) == (1, True)


def test_a_viewer_reads_and_changes_nothing(server: Closed) -> None:
    """The key decides: it lists and shows, and may neither save nor delete."""
    assert command(server, "save", "kept", "model=m").exit_code == 0
    assert "kept" in command(server, "list", key="viewer").stdout
    for arguments in (("save", "other", "model=m"), ("delete", "kept")):
        assert command(server, *arguments, key="viewer").exit_code == 1
    assert command(server, "show", "kept").exit_code == 0


def test_a_name_of_two_tenants_is_not_guessed(server: Closed) -> None:
    """Who sees both has to say which by its id."""
    for key in ("editor of acme", "editor of other"):
        assert command(server, "save", "both", "model=m", key=key).exit_code == 0
    result = command(server, "show", "both")
    assert (result.exit_code, "use the id" in result.stderr) == (1, True)
    ids = {each["id"] for each in json.loads(command(server, "list", "--json").stdout) if each["name"] == "both"}
    assert {command(server, "show", each).exit_code for each in ids} == {0}
    replaced = command(server, "save", "both", "model=n", "--replace")
    assert (replaced.exit_code, "several saved views" in replaced.stderr) == (1, True)


def test_a_directory_has_no_address(tmp_path: Path) -> None:
    """Without a server, a link is the path of the list."""
    with a_server(tmp_path) as server:
        assert run("saved-views", "save", "slow", "sort=duration", "--server", f"http://{server.http}").exit_code == 0
    shown = run("saved-views", "show", "slow", "--data", tmp_path)
    (line,) = [line for line in shown.output.splitlines() if "link" in line]
    assert line.split()[1].startswith("/traces?view=")
