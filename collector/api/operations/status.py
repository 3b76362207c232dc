"""Status of the server over HTTP."""

from fastapi.responses import Response

from collector.api.base.context import NO_SERVER, Context
from collector.api.base.json_encoding import json_response
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.documents.rule_documents import comparisons_of, problems_of
from collector.api.documents.status_documents import condition_document, lake_document, rule_counts, status_document
from collector.api.responses.declaration import response_model
from collector.api.responses.server import DroppedScopeDocument, RunningServer, StatusDocument

router = api_router()


@router.get("/api/v1/status")
@response_model(StatusDocument)
def status(context: ContextDep, caller: CallerDep) -> Response:
    """Return counts of stored, waiting and recently failed work, and the spending of today."""
    now_ns = context.now_ns()
    rules = rule_counts(
        context.rules.kept(), context.rules.problems, problems_of(context, caller), comparisons_of(context, None)
    )
    return json_response(
        status_document(
            context.store.status.status(now_ns),
            rules,
            server=_server(context),
            settling=context.settings.settling,
            now_ns=now_ns,
        )
    )


def _server(context: Context) -> RunningServer | None:
    """Return the status that only a running server knows; None for a data directory without one."""
    if context.state == NO_SERVER:
        return None
    return RunningServer(
        state=context.state,
        overloaded=context.store.overload is not None,
        backlog_bytes=context.store.backlog_bytes,
        dropped=[DroppedScopeDocument.of(entry, spans=spans) for entry, spans in context.reader.ingest.dropped.items()],
        conditions=[condition_document(each) for each in context.conditions.lasting],
        lake=lake_document(context.lake),
    )
