"""How the server stands, over HTTP."""

from fastapi.responses import JSONResponse

from collector.api.answers.declared import answers
from collector.api.answers.server import StatusDocument
from collector.api.base.context import NO_SERVER
from collector.api.base.routing import Here, Who, api_router
from collector.api.documents.rule_documents import comparisons_of, problems_of
from collector.api.documents.status_documents import condition_document, rule_counts_document, status_document

router = api_router()


@router.get("/api/v1/status")
@answers(StatusDocument)
def status(here: Here, who: Who) -> JSONResponse:
    """Return what is stored, behind and to be judged, what failed of late, and what was spent today."""
    now_ns = here.now_ns()
    server: dict[str, object] | None = {
        "state": here.state,
        "overloaded": here.overloaded(),
        "backlogBytes": here.backlog_bytes(),
        "dropped": [{**entry._asdict(), "spans": spans} for entry, spans in here.reader.ingest.dropped.items()],
        "conditions": [condition_document(each) for each in here.conditions.lasting],
    }
    if here.state == NO_SERVER:
        server = None
    found = here.status.status(now_ns)
    notes = problems_of(here, who), comparisons_of(here, None)
    rules = rule_counts_document(here.rules.kept(), here.rules.problems, *notes)
    return JSONResponse(status_document(found, rules, server=server, now_ns=now_ns))
