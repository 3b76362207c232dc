"""Status of the server over HTTP."""

from fastapi.responses import Response

from collector.api.answers.declared import answers
from collector.api.answers.server import DroppedScopeDocument, RunningServer, StatusDocument
from collector.api.base.context import NO_SERVER, Context
from collector.api.base.routing import Here, Who, api_router
from collector.api.base.written import encoded
from collector.api.documents.rule_documents import comparisons_of, problems_of
from collector.api.documents.status_documents import condition_document, rule_counts, status_document

router = api_router()


@router.get("/api/v1/status")
@answers(StatusDocument)
def status(here: Here, who: Who) -> Response:
    """Return counts of stored, waiting and recently failed work, and the spending of today."""
    now_ns = here.now_ns()
    rules = rule_counts(here.rules.kept(), here.rules.problems, problems_of(here, who), comparisons_of(here, None))
    return encoded(status_document(here.store.status.status(now_ns), rules, server=_server(here), now_ns=now_ns))


def _server(here: Context) -> RunningServer | None:
    """Return the status that only a running server knows; None for a data directory without one."""
    if here.state == NO_SERVER:
        return None
    return RunningServer(
        state=here.state,
        overloaded=here.store.overload is not None,
        backlog_bytes=here.store.backlog_bytes,
        dropped=[DroppedScopeDocument.of(entry, spans=spans) for entry, spans in here.reader.ingest.dropped.items()],
        conditions=[condition_document(each) for each in here.conditions.lasting],
    )
