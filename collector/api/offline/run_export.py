"""A run as a file, over HTTP."""

from typing import Annotated, Final

from fastapi import Query
from fastapi.responses import Response

from collector.access.permission import Permission, needs
from collector.api.base.context import Context
from collector.api.base.routing import ContextDep, api_router
from collector.api.base.streamed import streamed
from collector.api.offline.runs import Seen
from collector.api.responses.declaration import response_model
from collector.api.responses.offline import ExportedRun
from collector.experiments.exports import REPORT_FORMS, RunForm, report_of
from storage.offline.runs import Run

router = api_router(prefix="/api/v1/runs/{run_id}")

_FILE: Final = {"schema": {"type": "string", "format": "binary"}}


@router.get(
    "/export",
    responses={
        200: {"content": {form.media_type.partition(";")[0]: _FILE for form in REPORT_FORMS.values()}},
    },
    response_class=Response,
)
@needs(Permission.READ, by_tenant=True)
@response_model(ExportedRun)
def export(run: Seen, context: ContextDep, form: Annotated[RunForm, Query(alias="format")] = "json") -> Response:
    """Export a run as a file: JSON, which the gate reads, CSV, Markdown, HTML in one file, or JUnit XML."""
    return exported(context, run, form)


def exported(context: Context, run: Run, form: RunForm) -> Response:
    """Return a run as a download in one of its formats, which no browser shows as a page of this server."""
    chosen = REPORT_FORMS[form]
    report = report_of(run, context.store.runs.sums([run.run_id])[run.run_id], context.store.run_items)
    headers = {
        "content-disposition": f'attachment; filename="run-{run.run_id}.{chosen.suffix}"',
        "content-security-policy": "default-src 'none'; sandbox",
        "x-content-type-options": "nosniff",
    }
    return streamed(chosen.write(report), media_type=chosen.media_type, headers=headers)
