"""Validation of URLs with the HTTP client's parser, when they are configured, not when they are used."""

import httpx


class BadUrl(ValueError):
    """Text that is not a URL, or a URL to which nothing may be sent; the message has the reason."""


def read_url(text: str) -> httpx.URL:
    """Read a URL.

    Raises:
        BadUrl: the text is not a URL; the message does not repeat it, because it may hold a key.
    """
    try:
        url = httpx.URL(text)
        url.host.encode()  # decoded only now, and raises for what IDNA does not know
        url.raw_host.decode("ascii").encode("idna")  # as the resolver does: no empty label, none of 64 letters
    except (httpx.InvalidURL, ValueError):  # IDNA and ports raise the latter
        raise BadUrl("this is not a URL") from None
    return url
