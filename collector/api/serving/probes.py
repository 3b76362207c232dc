"""Probes and metrics as a separate application, which imports a tenth of the API's modules."""

from fastapi import FastAPI

from collector.access.origin import Names
from collector.api.base.context import Context
from collector.api.operations import health, metrics
from collector.api.serving.completing import complete


def make_probes(context: Context, names: Names) -> FastAPI:
    """Return the application over the components of a running server; it responds as the whole API does."""
    routes = [*health.router.routes, *metrics.router.routes]
    application = FastAPI(routes=routes, openapi_url=None, docs_url=None, redoc_url=None)
    complete(application, context, names, routes, site=None)
    return application
