"""Prints the shortest list of steps that still fails: python -m tests.simulation SEED PLACE [STEPS]."""

import re
import sys

from tests.simulation.account import ViolationError
from tests.simulation.life import lived


def failure(seed, place, steps, skipped):
    """Return the failure of a life without some of its acts."""
    try:
        lived(seed, is_local=place == "disk", steps=steps, skipped=skipped)
    except ViolationError as error:
        return error
    return None


def kind(error):
    """Return what a failure says, without the names of items and files."""
    return re.sub(r"\W[\w-]*\d[\w-]*", "", str(error).partition("\n")[0])[:60]


def shortest(seed, place, steps):
    """Leave out acts, in halves, quarters and so on, as long as the life still fails."""
    found = failure(seed, place, steps, frozenset())
    skipped = frozenset[int]()
    size = (found.acts if found else 0) // 2
    while found and size:
        for start in range(0, found.acts, size):
            fewer = skipped | {*range(start, start + size)}
            shorter = failure(seed, place, steps, fewer) if fewer != skipped else None
            if shorter and kind(shorter) == kind(found):
                found = shorter
                skipped = fewer
        size //= 2
    return found


if __name__ == "__main__":
    print(
        shortest(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 600)
        or "it passes"
    )
