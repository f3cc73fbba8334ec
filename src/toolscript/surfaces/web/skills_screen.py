"""Lists every skill, and shows one of them to read."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType
from starlette.requests import Request

from toolscript.app.application import App
from toolscript.surfaces.http.answers import SkillFile, SkillsAnswer
from toolscript.surfaces.http.routes import list_skills, read_skill
from toolscript.surfaces.web.screens import Screens

SCREENS = Screens()


class SkillsScreen(Struct, frozen=True, kw_only=True):
    """Every skill, and one of them to read."""

    skills: SkillsAnswer
    file: SkillFile | UnsetType = UNSET


@SCREENS.add("GET", "/skills", "skills.html")
async def skills(app: App, request: Request) -> Any:
    """Every skill; with ``?name=`` one of them is shown."""
    file = await read_skill(app, request) if "name" in request.query_params else UNSET
    return SkillsScreen(skills=await list_skills(app, request), file=file)
