"""A gateway with clients that log in, which fetches their documents from this machine, too.

``oauth_gateway.py CERTIFICATE``: the file has the certificate of the server of the documents. The
settings come from the environment.
"""

import ssl
import sys

from toolscript.config.settings import load_settings
from toolscript.surfaces.http.gateway_process import serve
from toolscript.surfaces.server.oauth_client_metadata import ClientDocuments
from toolscript.surfaces.web.screens import page_routes


def main(certificate: str) -> None:
    print("starts", flush=True)  # noqa: T201 - read by the test
    tls = ssl.create_default_context(cafile=certificate)
    documents = ClientDocuments(may_ask=lambda _: True, tls=tls)
    serve(load_settings({}), page_routes, documents=documents)


main(sys.argv[1])
