"""The API as one ASGI application."""

from collections.abc import Sequence

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from collector.api import health, sql, traces
from collector.api.context import Context


def make_application(context: Context, *, cors_origins: Sequence[str] = ()) -> FastAPI:
    """The application over a running server's parts."""
    application = FastAPI(title="Tracejury", openapi_url=None, docs_url=None, redoc_url=None)
    application.state.context = context
    for module in (health, sql, traces):
        application.include_router(module.router)
    application.add_exception_handler(RequestValidationError, _invalid)
    application.add_exception_handler(HTTPException, _http_error)
    if cors_origins:
        application.add_middleware(
            CORSMiddleware, allow_origins=list(cors_origins), allow_methods=["GET", "POST"], allow_headers=["*"]
        )
    return application


async def _invalid(_request: Request, error: Exception) -> JSONResponse:
    problems = error.errors() if isinstance(error, RequestValidationError) else []
    told = "; ".join(f"{'.'.join(map(str, problem['loc'][1:]))}: {problem['msg']}" for problem in problems)
    return JSONResponse({"error": told}, status_code=400)


async def _http_error(_request: Request, error: Exception) -> JSONResponse:
    status = error.status_code if isinstance(error, HTTPException) else 500
    detail = error.detail if isinstance(error, HTTPException) else "internal error"
    return JSONResponse({"error": detail}, status_code=status)
