"""The requests that came to the doors, counted by what was answered."""

from typing import Final

from collector.meters import Tally

OTHER: Final = "other"
"""What has no route, and methods that no route has, so that whoever asks makes no new labels."""

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"})


class Traffic:
    """Counts since the start. Added to on the event loop only, read from any thread."""

    def __init__(self) -> None:
        self.http = Tally("method", "route", "status")
        self.grpc = Tally("method", "code")
        self.undecoded_requests = Tally("protocol", "reason")
        self.undecoded_bytes = Tally("protocol", "reason")
        for protocol in ("http", "grpc"):  # so that the first of them is an increase, which alerts look for
            self.not_decoded(protocol, "overloaded", 0, requests=0)

    def answered(self, method: str, route: str | None, status: int) -> None:
        """Count an answer over HTTP; `route` is a template, as `/api/v1/traces/{trace_id}`."""
        self.http.add(method if method in _METHODS else OTHER, route or OTHER, str(status))

    def called(self, method: str, code: str) -> None:
        """Count an answer over gRPC, by the name of its code."""
        self.grpc.add(method, code)

    def not_decoded(self, protocol: str, reason: str, nbytes: int, *, requests: int = 1) -> None:
        """Count an export request that was turned away before anybody could count its spans.

        `nbytes` is how much of its body had come by then, as it was sent.
        """
        self.undecoded_requests.add(protocol, reason, count=requests)
        self.undecoded_bytes.add(protocol, reason, count=nbytes)
