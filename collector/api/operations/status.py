"""How the server stands, over HTTP."""

from fastapi.responses import JSONResponse

from collector.api.answers.declared import answers
from collector.api.answers.server import StatusDocument
from collector.api.base.context import Here, api_router
from collector.api.documents.rule_documents import comparisons_of, unable_of
from collector.api.documents.status_documents import condition_document, rule_counts_document, status_document

router = api_router()


@router.get("/api/v1/status")
@answers(StatusDocument)
def status(here: Here) -> JSONResponse:
    """What is stored, what is behind, what is to be judged, what failed of late, what was spent today."""
    now_ns = here.now_ns()
    server: dict[str, object] = {
        "state": here.state,
        "overloaded": here.overloaded(),
        "backlogBytes": here.backlog_bytes(),
        "conditions": [condition_document(each) for each in here.conditions.lasting],
    }
    found = here.status.status(now_ns)
    rules = rule_counts_document(here.rules.kept(), here.rules.problems, unable_of(here), comparisons_of(here, None))
    return JSONResponse(status_document(found, rules, server=server, now_ns=now_ns))
