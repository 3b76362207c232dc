"""The caller of a request, and its permissions."""

from pydantic import BaseModel, Field

from collector.access.permission import Permission, Role, needs
from collector.api.base.routing import CallerDep, api_router

router = api_router(prefix="/api/v1")


class CallerDocument(BaseModel):
    """The key of the request, or none."""

    role: Role
    permissions: list[Permission]
    tenant: str = Field(description="The tenant that owns what the caller writes.")
    seesAll: bool = Field(description="True if the caller sees the data of all tenants.")
    keyName: str | None = Field(description="Null: no key was shown, and none is needed.")


@router.get("/caller")
@needs(Permission.READ, by_tenant=True)
async def show_caller(caller: CallerDep) -> CallerDocument:
    """Return the permissions of the request's key."""
    return CallerDocument(
        role=caller.role,
        permissions=[each for each in Permission if caller.may(each)],
        tenant=caller.tenant,
        seesAll=caller.sees_all,
        keyName=caller.key_name,
    )
