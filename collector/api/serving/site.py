"""Pages for people, served beside the API: what the gate and the problems have to know of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response
from starlette.routing import BaseRoute
from starlette.types import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Pages and the forms on them. A cookie opens these and nothing else, so that the API needs no tokens in forms."""

    routers: Sequence[APIRouter]
    key_of: Callable[[Scope], bytes | None]  # the digest of the key that whoever sent this cookie signed in with
    check_form: Callable[..., object]  # a dependency of every route here
    problem_page: Callable[[Request, int, str, Mapping[str, str]], Response]
    attach: Callable[[FastAPI], None]  # gives the application what the pages keep

    @property
    def routes(self) -> list[BaseRoute]:
        """Every route of the pages."""
        return [route for router in self.routers for route in router.routes]
