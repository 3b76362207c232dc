"""The page of the playground: the span's messages in its form, the price before sending, and the answers."""

import base64
import json
import re
from collections.abc import Iterator
from html import unescape
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser import DESK, PHONE, a_page
from tests.live import until
from tests.model_server import Says
from tests.paging import Visit
from tests.picture_bytes import a_png
from tests.playing import SPAN, TRACE, Played, a_conversation, a_played_server, send

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.pages("playground", "traces")

HOSTILE = "<script>alert(1)</script>\u202e"
FROM = f"/playground?from={TRACE}/{SPAN}"


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """Start one server for all tests."""
    with a_played_server(tmp_path_factory.mktemp("played") / "data") as made:
        yield made


@pytest.fixture(scope="module")
def visit(played: Played) -> Iterator[Visit]:
    """Yield a visitor without a browser."""
    with Visit(played.origin) as made:
        yield made


def fields_of(page: str) -> dict[str, str]:
    """Return the fields that the form of a page would send: inputs, texts, and chosen options."""
    form = page.partition('id="playground"')[2].partition("</form>")[0]
    fields = dict(re.findall(r'<input[^>]* name="([^"]+)" value="([^"]*)"', form))
    fields |= dict(re.findall(r'<textarea name="([^"]+)"[^>]*>\n(.*?)</textarea>', form, re.DOTALL))
    for name, inside in re.findall(r'<select[^>]* name="([^"]+)"[^>]*>(.*?)</select>', form, re.DOTALL):
        chosen = re.search(r'<option(?: value="([^"]*)")? selected>([^<]*)', inside)
        fields[name] = "" if chosen is None else chosen[2] if chosen[1] is None else chosen[1]
    return {name: unescape(value) for name, value in fields.items() if name != "csrf"}


def words(text: str) -> str:
    """Return the text of a page."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())


def test_the_form_holds_what_the_model_was_asked(played: Played, visit: Visit) -> None:
    """Messages with their roles, calls as JSON, tools, parameters, the project, and the connection with that model."""
    _, two = played.connect()
    fields = fields_of(visit.get(FROM).text)
    assert [fields[f"role.{at}"] for at in range(4)] == ["system", "user", "assistant", "tool"]
    assert (fields["text.0"], fields["text.1"]) == ("Be brief.", "Is it cold in Oslo?")
    assert ('"name": "weather"' in fields["parts.2"], '"minus three"' in fields["parts.3"]) == (True, True)
    assert '"description": "Tells it"' in fields["tools"]
    assert (fields["temperature"], fields["topP"], fields["maxOutputTokens"]) == ("0.25", "0.9", "200")
    assert (fields["connection.0"], fields["connection.1"], fields["project"]) == (two, "", "shop")
    assert played.requests() == [[], []]


def test_the_page_of_a_model_leads_there(played: Played, visit: Visit) -> None:
    """The span of a model has a link, and the page links back to it; a missing span cannot be opened."""
    played.connect()
    page = visit.get(f"/traces/{TRACE}?span={SPAN}").text
    assert f'href="{FROM}">Open in the playground</a>' in page
    assert f'href="/traces/{TRACE}?span={SPAN}"' in visit.get(FROM).text
    assert visit.get(f"/playground?from={TRACE}/{'0' * 16}").status_code == 404


def test_nothing_is_sent_before_its_price_is_told(played: Played, visit: Visit) -> None:
    """A request within the shown price is sent at once; a dearer one first shows its price, and nothing is sent."""
    one, _ = played.connect()
    page = visit.get(FROM).text
    assert re.search(r"Costs at most \$0\.\d+ , for at most [\d,]+ tokens", words(page))
    fields = fields_of(page)
    more = visit.send(FROM, "/playground", **(fields | {"connection.1": one, "do": "send"}))
    assert "Nothing was sent yet, because it may cost more than the price you confirmed" in words(more.text)
    assert (played.requests(), "2 calls" in words(more.text)) == ([[], []], True)
    sent = visit.send(FROM, "/playground", **(fields_of(more.text) | {"do": "send"}))
    assert [len(each) for each in played.requests()] == [1, 1]
    assert ("Bitterly." in sent.text, "Very." in sent.text, "Yes, it is minus three." in sent.text) == (True,) * 3
    assert len(re.findall(r'href="/traces/[0-9a-f]{32}">Trace', sent.text)) == 2


@pytest.mark.parametrize("message", ["", "x", "/", "5/0.1", "999999999/", "999999999/x", "-1/9"])
def test_a_price_that_nobody_told_is_told(played: Played, visit: Visit, message: str) -> None:
    """A form whose price is missing, too small or made up sends nothing."""
    played.connect()
    fields = fields_of(visit.get(FROM).text) | {"shownPrice": message, "do": "send"}
    assert "Nothing was sent yet" in visit.send(FROM, "/playground", **fields).text
    assert played.requests() == [[], []]


def test_without_a_price_tokens_are_told(played: Played, visit: Visit) -> None:
    """A model without a price says how much it takes at most, and is asked."""
    played.connect(price=None)
    page = visit.get(FROM).text
    assert re.search(r"At most [\d,]+ tokens ; the cost is unknown", words(page))
    visit.send(FROM, "/playground", **(fields_of(page) | {"do": "send"}))
    assert [len(each) for each in played.requests()] == [0, 1]


def test_an_amount_confirms_no_unknown_price(played: Played, visit: Visit) -> None:
    """A model that lost its price since the form showed one is sent nothing before the page has said so."""
    played.connect(price=None)
    fields = fields_of(visit.get(FROM).text)
    fields |= {"shownPrice": f"{fields['shownPrice']}0.01", "do": "send"}
    assert "Nothing was sent yet" in visit.send(FROM, "/playground", **fields).text
    assert played.requests() == [[], []]


def test_what_is_over_budget_is_told_beside_its_answer(played: Played, visit: Visit) -> None:
    """The page says that it was not asked, and whose budget is spent."""
    played.connect(budget={"callsPerDay": 0})
    page = visit.get(FROM).text
    text = words(visit.send(FROM, "/playground", **(fields_of(page) | {"do": "send"})).text)
    assert "Not sent, because the budget does not cover it: the budget of connection 'two' is too small" in text
    assert played.requests() == [[], []]


@pytest.mark.parametrize(
    "wrong, beside, message",
    [
        ({"parts.2": "{"}, "message-2", "This is not JSON"),
        ({"parts.2": "7"}, "message-2", "must be a list of objects"),
        ({"parts.2": '[{"x": 1}]'}, "message-2", "each with a type"),
        ({"role.1": "wizard"}, "message-1", "must be one of"),
        ({"tools": "[1]"}, "tools", "must be a list of objects"),
        ({"temperature": "hot"}, "temperature", "valid number"),
        ({"maxOutputTokens": "0"}, "maxOutputTokens", "greater than or equal to 1"),
        ({"connection.0": ""}, "connection-0", "Choose a connection"),
        ({"connection.0": "nobody"}, "connection-0", "there is no connection"),
    ],
)
def test_what_is_wrong_is_told_beside_its_field(
    played: Played, visit: Visit, wrong: dict[str, str], beside: str, message: str
) -> None:
    """The form keeps what was typed, the field is marked, and nothing is sent."""
    played.connect()
    fields = fields_of(visit.get(FROM).text) | {"do": "send"} | wrong
    answer = visit.send(FROM, "/playground", **fields)
    match = re.search(rf'id="wrong-{beside}">(.*?)</small>', answer.text, re.DOTALL)
    assert match, answer.text
    assert (message in words(match[1]), answer.status_code) == (True, 400)
    ((name, value),) = wrong.items()
    is_choice = name.startswith(("role", "connection"))
    assert fields_of(answer.text)[name] == ("" if is_choice else value)
    assert played.requests() == [[], []]


def test_messages_are_added_and_taken_out(played: Played, visit: Visit) -> None:
    """Buttons add and remove messages without scripts, and typed text stays."""
    played.connect()
    fields = fields_of(visit.get(FROM).text) | {"text.1": "Changed"}
    added = fields_of(visit.send(FROM, "/playground", **(fields | {"do": "add"})).text)
    assert (added["role.4"], added["text.4"], added["text.1"]) == ("user", "", "Changed")
    removed = fields_of(visit.send(FROM, "/playground", **(added | {"do": "remove.0"})).text)
    assert (removed["role.0"], removed["text.0"], "role.4" in removed) == ("user", "Changed", False)


def test_a_long_conversation_is_sent_whole(played: Played, visit: Visit) -> None:
    """Messages that have no box of their own stand as JSON before the others, and leave with them."""
    _, two = played.connect()
    trace_id = "6c" * 16
    messages = [
        {"role": "assistant" if at % 2 else "user", "parts": [{"type": "text", "content": f"part {at}"}]}
        for at in range(61)
    ]
    send(played.running.otlp_http, a_conversation(trace_id, **{"gen_ai.input.messages": json.dumps(messages)}))
    until(lambda: played.sql(f"SELECT 1 FROM spans WHERE trace_id = '{trace_id}' AND span_type = 'llm'"), bool)
    path = f"/playground?from={trace_id}/{SPAN}"
    fields = fields_of(visit.get(path).text)
    assert (len(json.loads(fields["earlier"])), fields["text.0"], fields["connection.0"]) == (21, "part 21", two)
    visit.send(path, "/playground", **(fields | {"do": "send"}))
    ((sent,),) = played.requests()[1:]
    assert [part["content"][0]["text"] for part in sent["messages"]] == [f"part {at}" for at in range(61)]


def test_pictures_are_left_out_and_counted(played: Played, visit: Visit) -> None:
    """The page says how many it leaves out, also when it comes back; the texts beside them are sent."""
    played.connect()
    trace_id = "7d" * 16
    picture = {"type": "blob", "mime_type": "image/png", "content": "iVBORw0KGgo="}
    messages = [
        {"role": "user", "parts": [{"type": "text", "content": "What is this?"}, picture, {"type": "uri", "uri": "x"}]},
        {"role": "user", "parts": [picture]},
    ]
    send(played.running.otlp_http, a_conversation(trace_id, **{"gen_ai.input.messages": json.dumps(messages)}))
    until(lambda: played.sql(f"SELECT 1 FROM spans WHERE trace_id = '{trace_id}' AND span_type = 'llm'"), bool)
    path = f"/playground?from={trace_id}/{SPAN}"
    page = visit.get(path).text
    fields = fields_of(page)
    assert "3 images or files of this conversation are left out" in words(page)
    assert (fields["text.0"], "role.1" in fields, "iVBOR" in page) == ("What is this?", False, False)
    answer = visit.send(path, "/playground", **(fields | {"do": "send"}))
    assert "3 images or files" in words(answer.text)
    ((sent,),) = played.requests()[1:]
    assert [part["content"] for part in sent["messages"]] == [[{"type": "text", "text": "What is this?"}]]
    assert "media-left-out" not in visit.get(FROM).text


def test_pictures_are_sent_as_data_and_told_before(played: Played, visit: Visit) -> None:
    """The form and the trace reference an image and hold none of its bytes; how many bytes are sent is shown before."""
    played.connect()
    trace_id = "8e" * 16
    content = base64.b64encode(a_png()).decode()
    parts = [
        {"type": "text", "content": "What is this?"},
        {"type": "blob", "mime_type": "image/gif", "content": content},
    ]
    messages = [{"role": "user", "parts": parts}, {"role": "assistant", "parts": parts[1:]}]
    send(played.running.otlp_http, a_conversation(trace_id, **{"gen_ai.input.messages": json.dumps(messages)}))
    until(lambda: played.sql(f"SELECT 1 FROM spans WHERE trace_id = '{trace_id}' AND span_type = 'llm'"), bool)
    path = f"/playground?from={trace_id}/{SPAN}"
    page = visit.get(path).text
    fields = fields_of(page)
    assert json.loads(fields["parts.0"])[1] == {
        "type": "picture",
        "at": "0.1",
        "description": f"image/png, {len(a_png())} bytes",
    }
    assert f"1 image of {len(a_png())} bytes is sent" in words(page)
    assert "1 image or file of this conversation is left out" in words(page)
    assert content not in page
    answer = visit.send(path, "/playground", **(fields | {"do": "send"}))
    ((sent,),) = played.requests()[1:]
    source = {"type": "base64", "media_type": "image/png", "data": content}
    assert sent["messages"][0]["content"] == [
        {"type": "text", "text": "What is this?"},
        {"type": "image", "source": source},
    ]
    (made,) = re.findall(r'href="/traces/([0-9a-f]{32})">Trace', answer.text)
    ((stored,),) = until(
        lambda: played.sql(f"SELECT attributes['gen_ai.input.messages'] FROM spans WHERE trace_id = '{made}'"), bool
    )
    assert (content in str(stored), f"{len(a_png())} bytes" in str(stored)) == (False, True)


@pytest.mark.parametrize("at", ["0.0", "9.9", "0.1.0", "-1.0", "99999.0", "\u0663.0", HOSTILE, ""])
def test_a_form_names_pictures_of_its_own_span_alone(played: Played, visit: Visit, at: str) -> None:
    """A reference to any other image is an error beside its message, and nothing is sent."""
    played.connect()
    fields = fields_of(visit.get(FROM).text)
    del fields["text.0"]
    fields["parts.0"] = json.dumps([{"type": "picture", "at": at}])
    answer = visit.send(FROM, "/playground", **(fields | {"do": "send"}))
    assert (answer.status_code, "remove it" in words(answer.text)) == (400, True)
    assert played.requests() == [[], []]


def test_hostile_answers_are_texts(played: Played, visit: Visit) -> None:
    """Markup in an answer, in a message and in the name of a model does nothing."""
    played.connect()
    evil = '<script>alert(1)</script><img src="https://evil.example/x.png" onerror="alert(2)">'
    played.models[1].script = lambda _: Says(evil)
    try:
        fields = fields_of(visit.get(FROM).text) | {"text.1": evil, "model.0": evil[:150], "do": "price"}
        priced = visit.send(FROM, "/playground", **fields)
        sent = visit.send(FROM, "/playground", **(fields_of(priced.text) | {"do": "send"}))
    finally:
        played.models[1].script = lambda _: Says("Very.")
    assert len(played.models[1].requests) == 1
    for page in (priced.text, sent.text):
        assert "<script>alert" not in page
        assert "<img" not in page


def test_a_server_without_connections_says_what_to_do(played: Played, visit: Visit) -> None:
    """There is no form, and a link to where connections are made."""
    connections = played.running.context.judging.connections
    for each in connections.all():
        connections.delete(each.connection_id)
    page = visit.get("/playground").text
    assert ("No connections yet" in page, "<textarea" in page) == (True, False)


@pytest.mark.parametrize("looks", [{"viewport": DESK}, {"viewport": PHONE, "color_scheme": "dark"}])
@pytest.mark.parametrize("has_scripts", [True, False], ids=["scripts", "without"])
def test_somebody_asks_two_models_in_a_browser(
    played: Played, browser: "Browser", looks: dict[str, Any], *, has_scripts: bool
) -> None:
    """A person gets from the span to two answers beside the recorded one; with scripts the price follows typing."""
    one, _ = played.connect()
    with a_page(browser, played.origin, java_script_enabled=has_scripts, **looks) as watch:
        page: Page = watch.page
        watch.open(f"/traces/{TRACE}?span={SPAN}")
        page.get_by_role("link", name="Open in the playground").click()
        page.get_by_label("Message 2", exact=True).fill("Is it cold in Bergen?")
        page.get_by_label("Connection").nth(1).select_option(one)
        if has_scripts:
            page.get_by_text("2 calls").wait_for()
        else:
            page.get_by_role("button", name="Show maximum cost").click()
        page.get_by_role("button", name="Send", exact=True).click()
        page.get_by_role("heading", name="Responses").wait_for()
        answers = page.locator(".answer")
        assert [answers.nth(at).get_attribute("aria-label") for at in range(answers.count())] == [
            "Recorded response",
            "Response 1",
            "Response 2",
        ]
        assert ("Very." in answers.nth(1).inner_text(), "Bitterly." in answers.nth(2).inner_text()) == (True, True)
        assert "Bergen" in played.models[0].requests[0].body["messages"][1]["content"]
        assert page.get_by_label("Message 2", exact=True).input_value() == "Is it cold in Bergen?"
        assert (watch.scan() if has_scripts else [], watch.sideways() <= 0) == ([], True)
