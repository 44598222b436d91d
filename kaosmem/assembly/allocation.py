"""Allocation of a window's tokens to sections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kaosmem.errors import WindowTooSmallError
from kaosmem.sections import SectionSpec

FRAME = "(frame)"
"""Stands beside the sections' names in sums, for the tokens of no section."""

_NOISE = 1e-6
"""Shares of tokens do not add up exactly."""


@dataclass(frozen=True, slots=True)
class TokenNeed:
    """A section's need of a window, in tokens as rendered: `must` of them in any case, at most `want`."""

    must: int
    want: float


def allocate(specs: Sequence[SectionSpec], needs: Mapping[str, TokenNeed], budget: int) -> dict[str, int]:
    """Return each section's grant: its share of a window of `budget` tokens.

    needs: by section name; a section without one is empty and gets nothing.
    First the required items of every section; then static sections by priority, within what the floors and musts of all
    others leave; then floors; then histories, and then the others, by priority up to want, the spec's budget and the
    rest. Ties go in the order of `specs`. Grants sum to at most `budget`. They are rounded only at the end, so that a
    history's grant never falls as the budget grows.
    Raises WindowTooSmallError, with the sums, where the musts alone don't fit.
    """
    wanting = [spec for spec in by_priority(specs) if spec.name in needs]
    musts = {spec.name: needs[spec.name].must for spec in wanting}
    if sum(musts.values()) > budget:
        raise window_too_small(musts, budget)
    grants: dict[str, float] = {**musts}
    left: float = budget - sum(musts.values())
    held = {spec.name: max(0.0, _floor(spec, needs[spec.name], budget) - grants[spec.name]) for spec in wanting}

    def give(spec: SectionSpec, room: float) -> None:
        nonlocal left
        more = max(0.0, min(_most(spec, needs[spec.name]) - grants[spec.name], room, left))
        grants[spec.name] += more
        left -= more

    static = [spec for spec in wanting if spec.placement == "static"]
    others = [spec for spec in wanting if spec.placement != "static"]
    for spec in static:
        del held[spec.name]
        give(spec, left - sum(held.values()))
    for spec in others:
        give(spec, held[spec.name])
    for spec in sorted(others, key=lambda spec: spec.placement != "history"):
        give(spec, left)
    return {name: int(grant + _NOISE) for name, grant in grants.items()}


def scaled_floors(specs: Sequence[SectionSpec]) -> list[SectionSpec]:
    """Return specs whose floors sum to at most the whole window: sections alone do, with sources they may not."""
    total = sum(spec.floor for spec in specs)
    return list(specs) if total <= 1 else [replace(spec, floor=spec.floor / total) for spec in specs]


def by_priority(specs: Iterable[SectionSpec]) -> list[SectionSpec]:
    """Return specs in the order in which they are served."""
    return sorted(specs, key=lambda spec: -spec.priority)


def cap_of(spec: SectionSpec, window: int) -> int:
    """Return the most that a section may take of a window."""
    return window if spec.budget is None else min(spec.budget, window)


def window_too_small(needs: Mapping[str, int], window: int, *, section: str | None = None) -> WindowTooSmallError:
    """Return the error for required items that do not fit in a window, or in one section's budget."""
    total = sum(needs.values())
    if section is not None:
        return WindowTooSmallError(
            f"section {section!r} must show {total} tokens, headers included, and its budget is {window}; "
            f"raise that by {total - window}, or unpin or shorten items",
            need=needs,
        )
    sums = ", ".join(f"{name} {tokens}" for name, tokens in needs.items() if tokens)
    return WindowTooSmallError(
        f"a window of {window} tokens cannot hold the {total} that must be shown ({sums}); "
        f"raise the budget by {total - window}, lower reserve, or unpin or shorten items",
        need=needs,
    )


def _floor(spec: SectionSpec, need: TokenNeed, window: int) -> float:
    return min(spec.floor * window, _most(spec, need))


def _most(spec: SectionSpec, need: TokenNeed) -> float:
    return need.want if spec.budget is None else min(need.want, max(spec.budget, need.must))
