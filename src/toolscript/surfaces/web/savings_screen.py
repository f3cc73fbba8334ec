"""Shows how many tokens a search saves beside lists of all tools."""

from toolscript.surfaces.http.cost_routes import cost
from toolscript.surfaces.web.screens import Screens

SCREENS = Screens()
SCREENS.add("GET", "/savings", "savings.html")(cost)
