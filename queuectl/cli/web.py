"""`web`: the dashboard, the REST API and the metrics, for the browsers and programs of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from queuectl.queue import Queue

if TYPE_CHECKING:
    from queuectl.web.address import Address
    from queuectl.web.guard import Guard


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to serve on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8787, show_default=True, help="0 is any free one.")
@click.option("--open", "opening", is_flag=True, help="Open it in the browser.")
@click.option("--allow-remote", is_flag=True, help="Allow a --host that other machines can reach.")
@click.option("--read-only", is_flag=True, help="Only show: nothing can be changed from there.")
def web(host: str, port: int, opening: bool, allow_remote: bool, read_only: bool) -> None:
    """Serve the dashboard, the REST API and the metrics, until Ctrl+C.

    The printed address contains a token. Anyone who has the token can run commands as you.

    \b
    Examples:
      queuectl web --open
      queuectl web --port 9000 --read-only
    """
    from queuectl.web.address import Address, must_be_meant
    from queuectl.web.server import serve

    queue = Queue()
    queue.storage.settings()  # an error that keeps the queue from being used is reported now
    queue.close()
    must_be_meant(Address(host, port), allow_remote)
    if allow_remote:
        click.echo("Other machines may reach it, unencrypted. Anyone with the token can run commands as you.", err=True)

    def tell(url: str, guard: Guard, address: Address) -> None:
        click.echo(f"The dashboard is at {url}")
        click.echo("Ctrl+C ends it.", err=True)
        if opening:
            click.launch(address.url(guard.invite()))

    serve(queue.home, Address(host, port), read_only, tell)
    click.echo("The dashboard has ended.", err=True)
