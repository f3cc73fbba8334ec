"""``toolscript auth``."""

from contextlib import ExitStack
from typing import Any

import click

from toolscript.config.locations import key_of
from toolscript.config.secret_store import SecretStore, resolve_secrets
from toolscript.config.settings import PathSettings, load_settings
from toolscript.errors import InputError, UnknownNameError
from toolscript.storage.atomic_files import check_owner
from toolscript.surfaces.cli.browser_start import start_browser
from toolscript.surfaces.cli.options import settings_options
from toolscript.surfaces.cli.output import note
from toolscript.surfaces.server.config_sources import config_files, load
from toolscript.surfaces.server.opened_stores import opened_stores
from toolscript.types import SECRET_VARIABLE, ServerSpec


@click.command()
@click.argument("server")
@click.option("--logout", is_flag=True, help="Log out instead.")
@click.option("--no-browser", is_flag=True, help="Print the address instead of opening a browser.")
@settings_options("config", "data_dir")
def auth(server: str, logout: bool, no_browser: bool, **flags: Any) -> None:
    """Log in to the remote server SERVER, which uses OAuth, in a browser.

    A running gateway connects at once. Only you can read the stored tokens, and
    they are refreshed for as long as the server allows.
    """
    settings = load_settings(flags)
    spec = _remote(settings.paths, server)
    from toolscript.gateway.oauth.browser import log_in  # noqa: PLC0415 - imports the MCP SDK
    from toolscript.gateway.oauth.login import Login  # noqa: PLC0415 - the same

    check_owner(settings.paths.data_dir)
    spec = resolve_secrets(spec, SecretStore(settings.paths.data_dir)).spec
    directory = settings.paths.data_dir / "auth"
    key = key_of(config_files(settings.paths))
    with opened_stores(settings, key) as stores, ExitStack() as browsers:
        records = stores.records("logins")
        if logout:
            is_out = Login(directory, spec, records).forget()
            click.echo("logged out" if is_out else "not logged in")
            return

        def show(url: str) -> None:
            note(f"log in at {url}")
            if not no_browser:
                browsers.enter_context(start_browser(url))

        log_in(directory, spec, show, records, settings.server.client_document)
    click.echo(f"logged in to {spec.name}")


def _remote(paths: PathSettings, name: str) -> ServerSpec:
    config = load(paths)
    spec = next((spec for spec in config.servers if spec.name == name), None)
    if spec is None:
        known = ", ".join(spec.name for spec in config.servers) or "none"
        raise UnknownNameError(f"no server is called {name!r}; configured are: {known}")
    if spec.transport == "stdio":
        raise InputError(f"{name} is a program of this machine, which asks for no login")
    if SECRET_VARIABLE.search(spec.url):
        raise InputError(f"{name} has a secret in its url, and so no login")
    return spec
