"""Charts in pages: the drawing, and the table behind it."""

import math
import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest
from markupsafe import Markup

from collector.web.charts.columns import ChartColumn, columns
from collector.web.charts.histogram import histogram
from collector.web.charts.small import evidence_bar, evidence_share, sparkline, whisker
from collector.web.charts.trend import Scale, TrendPoint, trend
from tests.quality_history import HOSTILE


def drawn(picture: Markup) -> ET.Element:
    """Return the picture as elements; it has to be well-formed."""
    return ET.fromstring(f"<div>{picture}</div>")  # noqa: S314 - our own


def table(picture: Markup) -> list[list[str]]:
    """Return the rows of the table behind it."""
    return [["".join(cell.itertext()) for cell in row] for row in drawn(picture).iterfind(".//tbody/tr")]


def of_class(picture: Markup, name: str) -> list[ET.Element]:
    """Return the elements of a class."""
    return [each for each in drawn(picture).iter() if name in each.get("class", "").split()]


def a_trend(*points: TrendPoint) -> Markup:
    """Build a trend of these, in percent."""
    return trend(points, scale=Scale(low=0, high=100, unit=" %"), label="Pass rate", what="Rate")


def at(label: str, value: float | None, **more: object) -> TrendPoint:
    """Return a point with an interval of ten around it."""
    edges = {} if value is None else {"low": value - 10, "high": value + 10, "count": 7}
    return TrendPoint(label=label, value=value, **(edges | more))  # type: ignore[arg-type] # of the tests


def test_a_trend_is_a_line_in_a_band_with_its_numbers_behind_it() -> None:
    """Every number has a dot, a place on the line and in the band, and a row of the table."""
    picture = a_trend(at("Mon", 50), at("Tue", 60), at("Wed", 40))
    assert len(of_class(picture, "dot")) == 3
    assert len(of_class(picture, "series")) == 1
    assert len(of_class(picture, "band")) == 2
    assert table(picture)[1] == ["Tue", "60 %", "50 to 70 %", "7", ""]


def test_a_higher_number_is_drawn_higher() -> None:
    """The places on the line are in the order of the numbers."""
    line = of_class(a_trend(at("1", 10), at("2", 90), at("3", 50)), "series")[0].get("points", "")
    first, second, third = (float(pair.split(",")[1]) for pair in line.split())
    assert second < third < first


@pytest.mark.parametrize("between", [at("gap", None), at("new", 50, begins="evaluator 9f8e")])
def test_what_is_not_compared_is_not_joined(between: TrendPoint) -> None:
    """Neither a gap nor the beginning of another evaluator is crossed by the line or by the band."""
    picture = a_trend(at("1", 50), at("2", 50), between, at("3", 50), at("4", 50))
    lines = [each.get("points", "").split() for each in of_class(picture, "series")]
    assert [len(line) for line in lines] == ([2, 2] if between.value is None else [2, 3])
    ends = [float(line[-1].split(",")[0]) for line in lines], [float(line[0].split(",")[0]) for line in lines]
    assert ends[0][0] < ends[1][1]
    assert len(of_class(picture, "band")) == sum(len(line) - 1 for line in lines)


def test_another_evaluator_is_marked_and_told() -> None:
    """There is a line with its name, and the row of the table says so too."""
    picture = a_trend(at("1", 50), at("2", 60, begins="evaluator 9f8e"))
    assert len(of_class(picture, "mark")) == 1
    assert table(picture)[1][-1] == "evaluator 9f8e"


def test_points_lead_on() -> None:
    """A point with an address is a link in the picture, with a name and room for a finger, and in the table."""
    picture = a_trend(at("1", 50, href="/quality/results?a=1&b=2"), at("2", 50))
    links = list(drawn(picture).iter("a"))
    assert [each.get("href") for each in links] == ["/quality/results?a=1&b=2"] * 2
    assert links[0].get("aria-label") == "1"
    assert drawn(picture).find(".//svg").get("role") == "group"  # type: ignore[union-attr] # it is there
    assert len(of_class(picture, "room")) == 1


@pytest.mark.parametrize("count", [0, 1, 2, 31])
def test_a_trend_of_any_length_is_a_picture(count: int) -> None:
    """None, one and many: labels do not lie on each other, and nothing is drawn outside."""
    picture = a_trend(*(at(f"day {number}", 100 * (number % 2)) for number in range(count)))
    labels = [each for each in drawn(picture).iter("text") if (each.text or "").startswith("day")]
    assert len(labels) == min(count, len(labels)) <= 6
    assert bool(labels) == bool(count)
    for each in of_class(picture, "dot"):
        assert 0 <= float(each.get("cx", "")) <= 480
        assert 0 <= float(each.get("cy", "")) <= 180


def test_a_histogram_counts_and_marks_what_is_below_the_threshold() -> None:
    """Each column is as high as its count, those below the threshold are of another colour, and the table has both."""
    picture = histogram([4, 0, 2, 8], low=0, high=1, threshold=0.5, label="Scores", hrefs=["/a", "/b", "/c", "/d"])
    columns = of_class(picture, "column")
    heights = [float(each.get("height", "")) for each in columns]
    assert heights[3] == 2 * heights[0] == 4 * heights[2]
    assert heights[1] == 0
    assert ["bad" in each.get("class", "") for each in columns] == [True, True, False, False]
    assert table(picture) == [["0 to 0.25", "4"], ["0.25 to 0.5", "0"], ["0.5 to 0.75", "2"], ["0.75 to 1", "8"]]
    links = [each.get("href") for each in drawn(picture).find(".//svg").iter("a")]  # type: ignore[union-attr] # the drawing has one
    assert links == ["/a", "/c", "/d"]


def test_columns_draw_what_lies_within() -> None:
    """A column is as high as its number, what lies within it stands before it, and the picture has its size."""
    data = [
        ChartColumn(label="10:00", value=8, text="eight", within=4, href="/a"),
        ChartColumn(label="11:00", value=4, text="four", bad=2, href="/b"),
        ChartColumn(label="12:00", value=None, text="nothing"),
    ]
    picture = columns(data, label="Numbers", most="8", titles=("From", "Number"), size=(300.0, 60.0))
    shown = of_class(picture, "column")
    heights = [float(each.get("height", "")) for each in shown]
    assert [each.get("class") for each in shown] == ["column", "column within", "column", "column bad"]
    assert heights == [heights[0], heights[0] / 2, heights[0] / 2, heights[0] / 4]
    assert table(picture) == [["10:00", "eight"], ["11:00", "four"]]
    assert 'viewBox="0 0 300 60"' in picture
    texts = [each.text for each in drawn(picture).find(".//svg").iter("text")]  # type: ignore[union-attr] # the drawing has one
    assert texts == ["highest: 8", "10:00 UTC", "12:00 UTC"]  # no sum of all, and no hour of another zone


def test_a_sparkline_needs_a_number() -> None:
    """Without one there is nothing; with gaps there is a line for each stretch, and a dot at the last number."""
    assert sparkline([None, None], label="none") == ""
    picture = sparkline([1, 2, None, 3, 4, None], label="some")
    assert len(of_class(picture, "series")) == 2
    assert len(of_class(picture, "dot")) == 1


def test_a_whisker_lies_in_its_interval() -> None:
    """The mark is inside of the band, and both inside of the picture, whatever the numbers are."""
    for value, low, high in ((0.5, 0.4, 0.6), (0, 0, 0), (1, 1, 1), (1.2, -0.1, 1.4)):
        picture = whisker(value, low, high, label="a rate")
        (band,) = of_class(picture, "band")
        (dot,) = of_class(picture, "dot")
        left = float(band.get("x", ""))
        assert 0 <= left - 1e-9 <= float(dot.get("cx", "")) <= left + float(band.get("width", "")) + 1e-9 <= 120


def test_evidence_is_shown_by_its_doublings() -> None:
    """No evidence is nothing, the square root of the threshold half, and no bar is longer than full."""
    assert [evidence_share(each, 400) for each in (None, 0.2, 1, 20, 400, 1e9, math.inf)] == [
        0,
        0,
        0,
        pytest.approx(0.5),
        1,
        1,
        1,
    ]
    assert "meter bad" in evidence_bar(500, 400, label="much")
    assert "meter good" in evidence_bar(500, 400, label="much", is_good=True)


class _Elements(HTMLParser):
    """The names of the elements that a browser would see."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names |= {tag} | {f"on:{name}" for name, _ in attrs if name.startswith("on") or name == "style"}


def test_names_are_nothing_but_text() -> None:
    """Whatever a release is called, no element comes of it, and nothing in it is invisible."""
    point = at(HOSTILE, 50, href=f"/x?{HOSTILE}", begins=HOSTILE)
    for picture in (
        a_trend(point, point),
        histogram([1], low=0, high=1, label=HOSTILE, hrefs=[HOSTILE]),
        whisker(0.5, 0.4, 0.6, label=HOSTILE),
        sparkline([1, 2], label=HOSTILE),
    ):
        parser = _Elements()
        parser.feed(picture)
        assert not {name for name in parser.names if name == "script" or name.startswith("on:")}
        texts = re.sub(r'(href|aria-label)="[^"]*"|<(title|caption)[^>]*>[^<]*', "", picture)
        assert "\u202e" not in texts
        assert "\x1b" not in texts
