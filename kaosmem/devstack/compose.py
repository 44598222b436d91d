"""The servers as a file for Docker Compose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kaosmem.devstack.servers import PASSWORD_VARIABLE, Server
from kaosmem.errors import MissingExtraError

_HEAD = f"""\
# Made by `kaosmem devstack compose`. `docker compose up --wait` starts these servers.
# Put {PASSWORD_VARIABLE}=<8 or more letters and digits> into a file .env beside this one.
# Then these variables lead to them:
"""


def compose(servers: Sequence[Server]) -> str:
    """Return the servers as a compose file, with the ports and accounts of the local ones.

    The password is a variable. Raises MissingExtraError.

    >>> from kaosmem.devstack import Redis
    >>> print(compose([Redis(password="not-a-secret")]).splitlines()[-1])
      redis: {}
    """
    try:
        import yaml
    except ImportError:
        raise MissingExtraError("a compose file needs the extra 'devstack': pip install 'kaosmem[devstack]'") from None

    class Dumper(yaml.SafeDumper):  # type: ignore[misc]
        pass

    def text(dumper: yaml.SafeDumper, value: str) -> Any:
        style = "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    configs = {name: {"content": content} for server in servers for name, content in server.configs().items()}
    file = {
        "name": "kaosmem",
        "services": {server.name: server.service() for server in servers},
        "configs": configs,
        "volumes": {server.name: {} for server in servers},
    }
    variables = (
        f"#   {name}={value.replace(server.password, f'${PASSWORD_VARIABLE}')}\n"
        for server in servers
        for name, value in server.environment.items()
    )
    return _HEAD + "".join(variables) + str(yaml.dump(file, Dumper=Dumper, sort_keys=False, width=120))
