"""SVG elements, and figures with their data as a table; all text except `Markup` is escaped."""

from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape


def element(name: str, *children: object, **attributes: object) -> Markup:
    """Make an element. Attribute `class_` becomes `class`, inner underscores hyphens; None omits an attribute."""
    written = "".join(
        f' {_named(key)}="{escape(_number(value))}"' for key, value in attributes.items() if value is not None
    )
    inside = "".join(escape(child) for child in children)
    # `Markup.format` would escape too, and take 19 ms instead of 5 for the 921 elements of a page about a rule.
    return Markup(f"<{escape(name)}{written}>{inside}</{escape(name)}>")  # noqa: S704 - each part of it is escaped


def figure(picture: Markup, *, titles: Sequence[str], rows: Iterable[Sequence[object]], label: str) -> Markup:
    """Make a figure of a picture, with its data as a table behind it."""
    head = element("tr", *(element("th", title, scope="col") for title in titles))
    body = (element("tr", *(element("td", cell) for cell in row)) for row in rows)
    table = element("table", element("caption", label, class_="sr"), element("thead", head), element("tbody", *body))
    behind = element(
        "details",
        element("summary", "As a table"),
        element("div", table, class_="table", tabindex="0", role="region", aria_label=label),
    )
    return element("figure", picture, behind, class_="picture")


def frame(*children: Markup, width: float, height: float, label: str, **attributes: object) -> Markup:
    """Make the outermost element of a picture; `label` is its text for screen readers."""
    box = f"0 0 {_number(width)} {_number(height)}"
    title = element("title", label)
    return element("svg", title, *children, **({"viewBox": box, "role": "img"} | attributes))


def points(pairs: Iterable[tuple[float, float]]) -> str:
    """Format points for `polyline`."""
    return " ".join(f"{_number(x)},{_number(y)}" for x, y in pairs)


def _named(key: str) -> Markup:
    return escape(key.rstrip("_").replace("_", "-"))


def _number(value: object) -> object:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
