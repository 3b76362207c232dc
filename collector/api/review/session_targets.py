"""Sessions as targets of annotations, which are stored at the latest trace."""

from typing import Final

from collector.api.base.context import Context
from storage.errors import NotFound
from storage.query.trace_criteria import TraceCriteria
from storage.review.annotations import AnnotationTarget

_SESSION_S: Final = 10.0
"""Timeout of the search for a session's latest trace. A guess."""


def session_target(context: Context, tenant: str, session_id: str) -> AnnotationTarget:
    """Return a session of a tenant as a target.

    Raises:
        NotFound: the tenant has no trace of the session.
    """
    target = session_seen(context, tenant, session_id)
    if target.tenant != tenant:
        raise NotFound("no such session exists for votes of this key")
    return target


def session_seen(context: Context, visible_tenant: str | None, session_id: str) -> AnnotationTarget:
    """Return a session as a target. Only traces of the tenant or of no tenant count, or all if the tenant is None.

    Raises:
        NotFound: the session has no visible trace.
    """
    like = TraceCriteria(session=session_id)
    traces = context.store.listing.traces(like, limit=1, tenant=visible_tenant, within_s=_SESSION_S).traces
    if not traces:
        raise NotFound("there is no such session here")
    return AnnotationTarget(
        tenant=traces[0].tenant or "",
        target="session",
        project=traces[0].project,
        trace_id=traces[0].trace_id,
        session_id=session_id,
    )
