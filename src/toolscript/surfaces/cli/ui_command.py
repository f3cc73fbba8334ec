"""``toolscript ui``: opens the page in a browser."""

from typing import Any

import click

from toolscript.config.settings import load_settings
from toolscript.surfaces.cli.connect import gateway, recorded
from toolscript.surfaces.cli.gateway_starter import ensure_gateway
from toolscript.surfaces.cli.options import settings_options


@click.command()
@click.option("--print", "print_only", is_flag=True, help="Print the link, and open nothing.")
@settings_options("config", "data_dir")
def ui(print_only: bool, **flags: Any) -> None:
    """Open the page of the gateway in a browser; start the gateway if none runs.

    The link works once, within two minutes. Who opens it may do what you may:
    everything, or what TOOLSCRIPT_GATEWAY_TOKEN grants.
    """
    settings = load_settings(flags)
    if settings.gateway_url and not any(flags.values()):
        client = gateway(flags)
    else:
        client = recorded(ensure_gateway(settings, flags), settings.profile)
    link = client.url.rstrip("/") + client.post("/ui/link", b"{}")["path"]
    if not print_only and _opened(link):
        click.echo(f"opened {client.url} in your browser")
    else:
        click.echo(link)


def _opened(link: str) -> bool:
    import webbrowser  # noqa: PLC0415 - only this command opens one

    return webbrowser.open(link)
