"""A run as a file, over HTTP."""

from typing import Annotated, Final

from fastapi import Query
from fastapi.responses import Response

from collector.access.permission import Permission, needs
from collector.api.answers.declared import answers
from collector.api.answers.offline import ExportedRun
from collector.api.base.context import Context
from collector.api.base.routing import Here, api_router
from collector.api.base.streamed import streamed
from collector.api.offline.runs import Seen
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
@answers(ExportedRun)
def export(run: Seen, here: Here, form: Annotated[RunForm, Query(alias="format")] = "json") -> Response:
    """Export a run as a file: JSON, which the gate reads, CSV, Markdown, HTML in one file, or JUnit XML."""
    return exported(here, run, form)


def exported(here: Context, run: Run, form: RunForm) -> Response:
    """Return a run as a download in one of its formats, which no browser shows as a page of this server."""
    chosen = REPORT_FORMS[form]
    report = report_of(run, here.store.runs.sums([run.run_id])[run.run_id], here.store.run_items)
    headers = {
        "content-disposition": f'attachment; filename="run-{run.run_id}.{chosen.suffix}"',
        "content-security-policy": "default-src 'none'; sandbox",
        "x-content-type-options": "nosniff",
    }
    return streamed(chosen.write(report), media_type=chosen.media_type, headers=headers)
