"""``toolscript gateway page``: opens the page in a browser."""

import time
from typing import Any

import click

from toolscript.config.settings import load_settings
from toolscript.surfaces.cli.connect import client_of, gateway
from toolscript.surfaces.cli.gateway_client import RemoteClient
from toolscript.surfaces.cli.gateway_starter import ensure_gateway
from toolscript.surfaces.cli.options import settings_options
from toolscript.surfaces.cli.output import note

_OPEN_S = 20.0
"""How long a browser may take until it has opened the link."""
_POLL_S = 0.2


@click.command()
@click.option("--print", "print_only", is_flag=True, help="Print the link, and open nothing.")
@settings_options("profile", "config", "data_dir")
def page(print_only: bool, **flags: Any) -> None:
    """Open the gateway's page in a browser; start a gateway if none runs.

    The link works once, within two minutes. Who opens it may do what you may:
    everything, or what TOOLSCRIPT_GATEWAY_TOKEN grants.
    """
    settings = load_settings(flags)
    if settings.client.url and not any(flags.values()):
        client = gateway(flags)
    else:
        client = client_of(ensure_gateway(settings.paths, flags), settings.client.profile)
    made = client.post("/ui/link", b"{}")
    link = (made.get("origin") or client.url).rstrip("/") + made["path"]
    if not print_only and _is_opened(client, link):
        click.echo(f"opened {client.url} in your browser")
    else:
        click.echo(link)


def _is_opened(client: RemoteClient, link: str) -> bool:
    """Starts a browser, and returns whether it has opened the link."""
    from toolscript.surfaces.cli.browser_start import start_browser  # noqa: PLC0415 - imports more

    code = link.rpartition("=")[2].encode()
    with start_browser(link) as is_started:
        deadline = time.monotonic() + _OPEN_S
        while is_started and time.monotonic() < deadline:
            if not client.post("/ui/link/waiting", code)["isWaiting"]:
                return True
            time.sleep(_POLL_S)
    if is_started:  # such as one in a sandbox that may not read the file
        note(f"the browser has not opened the page within {_OPEN_S:g} s; open it at:")
    return False
