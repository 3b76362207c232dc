"""Images in messages: which parts are images, their display after a click, and that nothing else is shown."""

import base64
import json
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from collector.web.spans import conversation
from collector.web.spans.conversation import media_of
from evaluators.chat import images
from evaluators.chat.images import image_of
from tests.browser import DESK, PHONE, a_page
from tests.live import until
from tests.paging import Visit
from tests.picture_bytes import a_png
from tests.playing import SPAN, a_conversation, send
from tests.serving import a_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from collector.app import Running

pytestmark = pytest.mark.pages("traces")

TRACE = "e5" * 16
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
HTML = b"<!doctype html><script>alert(1)</script>"


def a_gif(wide: int = 3, high: int = 2) -> bytes:
    """Return the beginning of a picture up to its size."""
    return b"GIF89a" + struct.pack("<HH", wide, high) + b"\0\0\0;"


def a_jpeg(wide: int = 3, high: int = 2) -> bytes:
    """Return the same, with a segment before the frame."""
    other = b"\xff\xe0" + struct.pack(">H", 4) + b"ab"
    return b"\xff\xd8" + other + b"\xff\xc2" + struct.pack(">HBHHB", 11, 8, high, wide, 1) + b"\x01\x11\x00\xff\xd9"


def a_webp(kind: bytes, body: bytes) -> bytes:
    """Return the same, in one of its three forms."""
    return b"RIFF" + struct.pack("<I", len(body) + 12) + b"WEBP" + kind + struct.pack("<I", len(body)) + body


WEBPS = {
    b"VP8 ": a_webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 3, 2)),
    b"VP8L": a_webp(b"VP8L", b"\x2f" + struct.pack("<I", 2 | 1 << 14)),
    b"VP8X": a_webp(b"VP8X", b"\0\0\0\0" + (2).to_bytes(3, "little") + (1).to_bytes(3, "little")),
}


def a_blob(content: bytes | str, media_type: str = "image/png") -> dict[str, Any]:
    """Build a part of a message."""
    text = content if isinstance(content, str) else base64.b64encode(content).decode()
    return {"type": "blob", "modality": "image", "mime_type": media_type, "content": text}


@pytest.mark.parametrize(
    "content, kind",
    [
        (a_png(), "image/png"),
        (a_gif(), "image/gif"),
        (a_jpeg(), "image/jpeg"),
        *((webp, "image/webp") for webp in WEBPS.values()),
    ],
    ids=["png", "gif", "jpeg", "webp", "webp lossless", "webp extended"],
)
def test_a_raster_image_is_what_its_bytes_say(content: bytes, kind: str) -> None:
    """Whatever it was called, and however its base64 is written, as bytes or in the address of data."""
    plain = base64.b64encode(content).decode()
    for text in (plain, plain.rstrip("="), plain.replace("+", "-").replace("/", "_"), f"{plain[:8]}\n{plain[8:]}"):
        for part in (a_blob(text, "text/html"), {"type": "uri", "uri": f"data:image/svg+xml;base64,{text}"}):
            image = image_of(part)
            assert image is not None
            assert (image.media_type, image.content) == (kind, content)
            assert media_of(part).is_image
            assert media_of(part).title.startswith(f"{kind}, ")


@pytest.mark.parametrize(
    "part",
    [
        a_blob(SVG, "image/svg+xml"),
        a_blob(SVG),
        a_blob(HTML),
        a_blob(b"%PDF-1.7"),
        a_blob(b"RIFF\0\0\0\0WAVEfmt ", "audio/wav"),
        a_blob(b"BM" + b"\0" * 60, "image/bmp"),
        a_blob("not base64 at all!"),
        a_blob(""),
        a_blob("A"),
        a_blob(b"\x89PNG\r\n\x1a\n"),
        a_blob(b"\xff\xd8\xff"),
        a_blob(b"\xff\xd8" + b"\xff" * 1000),
        a_blob(b"GIF89a"),
        a_blob(a_webp(b"ALPH", b"\0" * 20)),
        {"type": "uri", "uri": "https://evil.example/x.png"},
        {"type": "uri", "uri": "data:image/png,%89PNG"},
        {"type": "file", "file_id": "file-1"},
        {"type": "blob", "content": 7},
        {"type": "blob"},
    ],
    ids=str,
)
def test_nothing_else_is_an_image(part: dict[str, Any]) -> None:
    """Active content, references to other hosts, broken data and other media are not images."""
    assert image_of(part) is None
    assert media_of(part).title


@pytest.mark.parametrize("content", [a_png(0, 5), a_png(60_000, 60_000), a_gif(65_535, 65_535), a_jpeg(65_535, 65_535)])
def test_a_picture_that_unpacks_to_too_much_is_none(content: bytes) -> None:
    """What its header says is believed before a browser is asked."""
    assert image_of(a_blob(content)) is None


def test_a_large_picture_is_named_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """An image beyond the limit is described with its size, and not shown."""
    for module in (conversation, images):
        monkeypatch.setattr(module, "MOST_BYTES", 1000)
    part = a_blob(a_png() + b"\0" * 2000)
    assert (image_of(part), media_of(part).is_image) == (None, False)
    assert media_of(part).title == "image/png, 2.0 KiB"


@pytest.mark.parametrize(
    "part, title",
    [
        (a_blob(b"\0" * 3000, "audio/wav"), "audio/wav, 2.9 KiB"),
        ({"type": "blob", "modality": "audio", "content": "AAAA"}, "audio, 3 bytes"),
        ({"type": "uri", "modality": "image", "uri": "https://x.example/a.png"}, "image: https://x.example/a.png"),
        ({"type": "file", "modality": "document", "file_id": "file-7"}, "document: file-7"),
    ],
)
def test_media_are_named_with_type_and_size(part: dict[str, Any], title: str) -> None:
    """Or with their address, which is never requested."""
    assert media_of(part).title == title


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Running"]:
    """Yield a server with a conversation that carries pictures and what poses as some."""
    parts = [
        {"type": "text", "content": "Look"},
        a_blob(a_png()),
        a_blob(SVG, "image/png"),
        a_blob(HTML, "image/png"),
        {"type": "uri", "modality": "image", "uri": "https://evil.example/track.png"},
        a_blob(b"RIFF\0\0\0\0WAVEfmt ", "audio/wav"),
    ]
    messages = json.dumps(
        [{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}, {"role": "user", "parts": parts}]
    )
    with a_server(tmp_path_factory.mktemp("images") / "data") as made:
        send(made.otlp_http, a_conversation(TRACE, **{"gen_ai.input.messages": messages}))
        select = "SELECT 1 FROM spans WHERE span_type = 'llm'"
        until(lambda: made.store.queries.sql(select, max_rows=1, timeout_s=10).rows, bool)
        yield made


def test_a_picture_comes_as_nothing_but_a_picture(running: "Running") -> None:
    """An image is served with its type, under a policy that runs nothing, and anything else is 404."""
    place = f"/traces/{TRACE}/spans/{SPAN}/media"
    with Visit(f"http://{running.http}") as visit:
        response = visit.get(f"{place}?of=input_messages&at=1.1")
        assert (response.status_code, response.content) == (200, a_png())
        headers = response.headers
        assert (headers["content-type"], headers["x-content-type-options"]) == ("image/png", "nosniff")
        policy = "default-src 'none'; style-src 'unsafe-inline'; sandbox"  # by which a browser shows one alone
        assert headers["content-security-policy"] == policy
        assert (headers["cache-control"], headers["cross-origin-resource-policy"]) == (
            "private, no-store",
            "same-origin",
        )
        assert visit.get(f"{place}?of=input_messages.1&at=1").content == a_png()
        for question in (
            *(f"of=input_messages&at=1.{part}" for part in (0, 2, 3, 4, 5, 6)),
            "of=input_messages&at=9.9",
            "of=input_messages&at=1",
            "of=input_messages&at=1.1.1",
            "of=input_messages&at=-1.1",
            "of=input_messages&at=99999999999.1",
            "of=input_messages.1&at=1.1",
            "of=attributes&at=1.1",
            "of=input&at=0.0",
            "",
        ):
            assert visit.get(f"{place}?{question}").status_code == 404, question
        assert visit.get(f"/traces/{TRACE}/spans/{'0' * 16}/media?of=input_messages&at=1.1").status_code == 404


def test_a_page_loads_no_picture_by_itself(running: "Running") -> None:
    """It has links to those that can be shown, and names for the others."""
    with Visit(f"http://{running.http}") as visit:
        for path in (f"/traces/{TRACE}?span={SPAN}", f"/traces/{TRACE}?view=conversation"):
            page = visit.get(path).text
            assert ("<img" in page, page.count("data-image"), page.count("Show the image")) == (False, 1, 1)
            for text in (f"image/png, {len(SVG)} bytes", "https://evil.example/track.png", "audio/wav, 16 bytes"):
                assert f"{text}</bdi> <small>not loaded" in page, text


@pytest.mark.parametrize("looks", [{"viewport": DESK}, {"viewport": PHONE, "color_scheme": "dark"}])
@pytest.mark.parametrize("view", [f"span={SPAN}", "view=conversation"])
def test_a_click_shows_the_picture_in_a_browser(
    running: "Running", browser: "Browser", looks: dict[str, Any], view: str
) -> None:
    """Before it nothing is asked for, after it the picture stands there, and another click takes it away."""
    with a_page(browser, f"http://{running.http}", **looks) as watch:
        page, urls = watch.page, list[str]()
        page.on("request", lambda request: urls.append(request.url) if "/media" in request.url else None)
        watch.open(f"/traces/{TRACE}?{view}")
        page.get_by_role("link", name="Show the image").wait_for()
        assert urls == []
        page.get_by_role("link", name="Show the image").click()
        image = page.get_by_role("img", name="Image of this message")
        image.wait_for()
        until(lambda: image.evaluate("each => each.naturalWidth"), lambda width: width == 2)
        assert len(urls) == 1
        assert (watch.scan(), watch.sideways() <= 0) == ([], True)
        page.get_by_role("link", name="Hide the image").click()
        assert image.count() == 0


def test_without_scripts_the_link_leads_to_the_picture(running: "Running", browser: "Browser") -> None:
    """The browser shows the picture, and nothing else."""
    with a_page(browser, f"http://{running.http}", java_script_enabled=False) as watch:
        watch.open(f"/traces/{TRACE}?span={SPAN}")
        watch.page.get_by_role("link", name="Show the image").click()
        watch.page.wait_for_url("**/media?*")
        assert watch.page.locator("img").count() == 1
