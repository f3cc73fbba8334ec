"""``idle_gateway.py SECONDS``: a gateway on demand that ends after so long without clients."""

import sys

from toolscript.config.settings import load_settings
from toolscript.surfaces.http.gateway_process import serve
from toolscript.surfaces.web.screens import page_routes

print("starts", flush=True)  # noqa: T201 - read by the test
serve(load_settings({}), page_routes, idle_s=float(sys.argv[1]))
