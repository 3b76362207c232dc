"""One comment on a pull or merge request, which is replaced with each push."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import httpx

from collector.gating.summary import MARK

Variables: TypeAlias = Callable[[str], str | None]

_TIMEOUT_S: Final = 20.0
_PAGE: Final = 100
_MAX_PAGES: Final = 30  # 3,000 comments. A guess
_READ_ONLY: Final = frozenset({401, 403, 404})  # statuses that refuse a fork's token


class NoComment(Exception):
    """Failure to comment: there is no pull or merge request, or the comment was refused; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentPlace:
    """The comments of one pull or merge request."""

    comments: str  # URL that lists comments, and takes new ones
    one: str  # URL of one comment, without the id at its end
    headers: Mapping[str, str]
    change: str  # the method that changes a comment


def github(variables: Variables) -> CommentPlace:
    """Return the pull request of a GitHub workflow.

    Raises:
        NoComment: the workflow runs for no pull request, or without a token.
    """
    token, repository = variables("GITHUB_TOKEN"), variables("GITHUB_REPOSITORY")
    if not token or not repository:
        raise NoComment("GITHUB_TOKEN and GITHUB_REPOSITORY are needed")
    event = _event(variables("GITHUB_EVENT_PATH"))
    number = (event.get("pull_request") or {}).get("number")
    if not isinstance(number, int):
        raise NoComment("the workflow runs for no pull request")
    base = f"{variables('GITHUB_API_URL') or 'https://api.github.com'}/repos/{repository}/issues"
    return CommentPlace(
        comments=f"{base}/{number}/comments",
        one=f"{base}/comments/",
        headers={
            "Authorization": f"Bearer {token}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
        },
        change="PATCH",
    )


def gitlab(variables: Variables) -> CommentPlace:
    """Return the merge request of a GitLab pipeline.

    Raises:
        NoComment: the pipeline runs for no merge request, or without a token.
    """
    token, number = variables("TRACEJURY_GITLAB_TOKEN"), variables("CI_MERGE_REQUEST_IID")
    base, project = variables("CI_API_V4_URL"), variables("CI_PROJECT_ID")
    if not number:
        raise NoComment("the pipeline runs for no merge request")
    if not token or not base or not project:
        raise NoComment("TRACEJURY_GITLAB_TOKEN, CI_API_V4_URL and CI_PROJECT_ID are needed")
    notes = f"{base}/projects/{project}/merge_requests/{number}/notes"
    return CommentPlace(comments=notes, one=f"{notes}/", headers={"PRIVATE-TOKEN": token}, change="PUT")


PLACES: Final[Mapping[str, Callable[[Variables], CommentPlace]]] = {"github": github, "gitlab": gitlab}


def put_comment(place: CommentPlace, body: str) -> str:
    """Replace our comment, or create it; return `updated` or `created`.

    Raises:
        NoComment: the comment was refused, as for forks, whose tokens may only read, or there was no response.
    """
    with httpx.Client(timeout=_TIMEOUT_S, headers=dict(place.headers), follow_redirects=False) as client:
        known = _ours(client, place)
        if known is None:
            _request(client, "POST", place.comments, json={"body": body})
            return "created"
        _request(client, place.change, f"{place.one}{known}", json={"body": body})
        return "updated"


def _ours(client: httpx.Client, place: CommentPlace) -> int | None:
    for page in range(1, _MAX_PAGES + 1):
        comments = _request(client, "GET", place.comments, params={"per_page": _PAGE, "page": page})
        if not isinstance(comments, list):
            raise NoComment("the comments are not a list")
        for each in comments:
            if (
                isinstance(each, dict)
                and str(each.get("body", "")).startswith(MARK)
                and isinstance(each.get("id"), int)
            ):
                return int(each["id"])
        if len(comments) < _PAGE:
            return None
    return None


def _request(client: httpx.Client, method: str, url: str, **more: Any) -> Any:  # noqa: ANN401 - JSON
    try:
        answer = client.request(method, url, **more)
        if answer.status_code in _READ_ONLY:
            raise NoComment(f"the token may not comment ({answer.status_code}), as those of forks may not")
        answer.raise_for_status()
        return answer.json()
    except (httpx.HTTPError, ValueError) as error:
        raise NoComment(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else method}") from error


def _event(path: str | None) -> Mapping[str, Any]:
    try:
        event = json.loads(Path(path or "").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise NoComment(f"GITHUB_EVENT_PATH cannot be read ({type(error).__name__})") from error
    return event if isinstance(event, dict) else {}
