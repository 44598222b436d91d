"""Run the `kaosmem` command: `python -m kaosmem.cli`."""

from kaosmem.cli import main

main()
