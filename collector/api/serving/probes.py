"""What monitoring systems ask without end, as an application of its own, which loads a tenth of the API's modules."""

from fastapi import FastAPI

from collector.access.origin import Names
from collector.api.base.context import Context
from collector.api.operations import health, metrics
from collector.api.serving.completing import complete


def make_probes(context: Context, names: Names) -> FastAPI:
    """Return the application over a running server's parts; it answers as that of the whole API."""
    routes = [*health.router.routes, *metrics.router.routes]
    application = FastAPI(routes=routes, openapi_url=None, docs_url=None, redoc_url=None)
    complete(application, context, names, routes, site=None)
    return application
