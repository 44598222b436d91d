"""OpenHands SDK 1.x: a condenser of an agent. It needs Python 3.12 or newer."""

from kaosmem.integrations.openhands.condenser import KaosmemCondenser as KaosmemCondenser
