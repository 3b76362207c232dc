"""The caller of a request, and its permissions."""

from pydantic import BaseModel, Field

from collector.access.permission import Permission, Role, needs
from collector.api.base.routing import Who, api_router

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
async def show_caller(who: Who) -> CallerDocument:
    """Return the permissions of the request's key."""
    return CallerDocument(
        role=who.role,
        permissions=[each for each in Permission if who.may(each)],
        tenant=who.tenant,
        seesAll=who.sees_all,
        keyName=who.key_name,
    )
