"""`kaosmem devstack`: local servers to try the stores with."""

from __future__ import annotations

import os
import re
import secrets
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from kaosmem.cli.terminal import Column, Phases, write, write_json, write_table
from kaosmem.devstack.running import LocalServer, compose, started
from kaosmem.devstack.servers import PASSWORD_VARIABLE, SERVERS, Server
from kaosmem.errors import InvalidArgumentError
from kaosmem.names import shown

_COLUMNS = (
    Column("server"),
    Column("program"),
    Column("keeps", narrow="fold"),
    Column("URL", narrow="fold"),
)
_WATCHED_EVERY_S = 0.2

devstack = typer.Typer(
    name="devstack",
    help="Run PostgreSQL, Valkey and an S3 server on this machine, to try the stores.",
    short_help="Run local servers for the stores.",
    no_args_is_help=True,
)

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SERVER]...",
        help=f"The servers: {', '.join(SERVERS)}. The default is all.",
        show_default=False,
    ),
]
Ports = Annotated[
    list[str] | None,
    typer.Option(
        "--port",
        metavar="SERVER=PORT",
        help="The port of a server. Repeatable.",
        show_default=", ".join(f"{name}={server.default_port}" for name, server in SERVERS.items()),
    ),
]


@devstack.command(short_help="Start the servers, and stop them at Ctrl+C.")
def up(
    names: Names = None,
    port: Ports = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep the data and the password in this folder.",
            show_default="a temporary folder",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the servers as JSON for a program.")
    ] = False,
) -> None:
    """Start the servers of the extra devstack, and print their URLs and variables.

    Ctrl+C, SIGTERM and the end of one server stop all of them. They listen on 127.0.0.1. The password is new for each
    run, or kept in the folder of --data. KAOSMEM_DEVSTACK_PASSWORD sets it.
    """
    servers = _servers(names, port, _password(data))
    with _interrupted() as interrupted, Phases() as phases:
        phases.begin("starting " + ", ".join(server.name for server in servers))
        with started(servers, data, interrupted=interrupted.is_set) as running:
            if running:
                phases.begin("the servers run; Ctrl+C stops them")
                _print(servers, data, as_json=as_json)
                _watch(running, interrupted)
                phases.begin("stopping the servers")
    typer.echo("kaosmem: all servers have stopped", err=True)


@devstack.command("compose", short_help="Print a file for Docker Compose with the same servers.")
def compose_(names: Names = None, port: Ports = None) -> None:
    """Print a compose file: the same servers, ports and accounts as `devstack up`, from official images.

    The file holds no password. It reads KAOSMEM_DEVSTACK_PASSWORD from the environment or from a file .env.
    """
    write(compose(_servers(names, port, secrets.token_hex(16))))


def _servers(names: list[str] | None, ports: list[str] | None, password: str) -> list[Server]:
    given = dict(map(_port, ports or ()))
    for name in (*(names or ()), *given):
        if name not in SERVERS:
            raise InvalidArgumentError(f"no server {shown(name)}; there are {', '.join(SERVERS)}")
    return [
        kind(password=password, port=given.get(name, 0))
        for name, kind in SERVERS.items()
        if name in (names or SERVERS)
    ]


def _port(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not number.isdecimal() or not 0 < int(number) < 2**16:
        raise InvalidArgumentError(
            f"--port is {shown(text)}; give a server and a port, such as postgres=5433"
        )
    return name, int(number)


def _password(data: Path | None) -> str:
    """Return the password: of the environment, of the folder, or a new one.

    It is kept in the folder.
    """
    given = os.environ.get(PASSWORD_VARIABLE)
    kept = data and data / "password"
    if given is not None and not re.fullmatch("[A-Za-z0-9]{8,128}", given):
        raise InvalidArgumentError(
            f"{PASSWORD_VARIABLE} is not a password that fits into a URL; use 8 to 128 letters and "
            "digits"
        )
    if kept and kept.exists():
        password = kept.read_text().strip()
        if given not in (None, password):
            raise InvalidArgumentError(
                f"{PASSWORD_VARIABLE} is not the password in {str(kept)!r}; unset it, or use "
                "another folder"
            )
        return password
    password = given or secrets.token_hex(16)
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.touch(mode=0o600)
        kept.write_text(password + "\n")
    return password


@contextmanager
def _interrupted() -> Iterator[threading.Event]:
    """Yield an event that SIGINT, SIGTERM and SIGHUP set, in place of what they do else."""
    event = threading.Event()
    signals = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if sys.platform != "win32" else [])]
    before = {each: signal.signal(each, lambda *_: event.set()) for each in signals}
    try:
        yield event
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _watch(running: list[LocalServer], interrupted: threading.Event) -> None:
    """Wait for a signal. Raises LocalServerError when a server ends by itself."""
    while not interrupted.wait(_WATCHED_EVERY_S):
        for each in running:
            if not each.is_running:
                each.fail("has ended, so the others are stopped")


def _print(servers: list[Server], data: Path | None, *, as_json: bool) -> None:
    variables: dict[str, str] = {}
    for server in servers:
        variables |= server.environment
    if as_json:
        listed = [
            {"server": each.name, "url": each.url, "port": each.port, "keeps": [*each.stores]}
            for each in servers
        ]
        write_json(
            {
                "servers": listed,
                "environment": variables,
                "data": None if data is None else str(data.absolute()),
            }
        )
    else:
        place = "a temporary folder, deleted at the end" if data is None else str(data.absolute())
        write_table(
            f"data: {place}",
            _COLUMNS,
            [(each.name, each.title, ", ".join(each.stores), each.url) for each in servers],
        )
        write("\n" + "".join(f"export {name}={value}\n" for name, value in variables.items()))
        write("\nCtrl+C stops the servers.\n")
    sys.stdout.flush()
