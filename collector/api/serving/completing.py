"""Shared parts of all applications of the API: problems, the gate, and CORS headers."""

from collections.abc import Sequence

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute

from collector.access.origin import Names
from collector.api.base.context import Context
from collector.api.base.exact_json import bound_errors
from collector.api.base.problems import RetryOnReopen, answer_problems
from collector.api.serving.gate import Admission, Gate, Site
from collector.api.serving.idempotency import Repetitions


def complete(
    application: FastAPI, context: Context, names: Names, routes: Sequence[BaseRoute], site: Site | None
) -> None:
    """Add the context, the gate, problems and headers to an application of these routes and pages."""
    application.state.context = context
    answer_problems(application)
    bound_errors(application.routes)
    application.add_middleware(RetryOnReopen)
    application.add_middleware(Repetitions)
    application.add_middleware(
        Gate,
        admission=Admission(
            authenticator=context.authenticator,
            bodies=context.bodies,
            answers=context.answers,
            watch=context.watch,
        ),
        names=names,
        routes=routes,
        site=site,
    )
    if names.origins:
        application.add_middleware(
            CORSMiddleware,
            allow_origins=list(names.origins),
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["*"],
            expose_headers=["ETag", "Idempotency-Replayed", "Link", "Location", "Retry-After", "X-Request-Id"],
        )
