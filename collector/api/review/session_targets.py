"""A session as something that is judged: what is said of it hangs on the latest of its traces."""

from typing import Final

from collector.api.base.context import Context
from storage.errors import Missing
from storage.query.traces_like import TracesLike
from storage.review.annotations import AnnotationTarget

_SESSION_S: Final = 10.0
"""What the search for the latest trace of a session may take. A guess."""


def session_target(here: Context, tenant: str, session_id: str) -> AnnotationTarget:
    """A session of a tenant.

    Raises:
        Missing: it has no trace here.
    """
    found = session_seen(here, tenant, session_id)
    if found.tenant != tenant:
        raise Missing("there is no such session here that is yours to vote on")
    return found


def session_seen(here: Context, visible_tenant: str | None, session_id: str) -> AnnotationTarget:
    """A session that somebody sees: of one tenant and of none, or with None of all.

    Raises:
        Missing: it has no trace here.
    """
    like = TracesLike(session=session_id)
    found = here.listing.traces(like, limit=1, tenant=visible_tenant, within_s=_SESSION_S).traces
    if not found:
        raise Missing("there is no such session here")
    return AnnotationTarget(
        tenant=found[0].tenant or "",
        target="session",
        project=found[0].project,
        trace_id=found[0].trace_id,
        session_id=session_id,
    )
