"""The pieces of items, as the system message and the block show them."""

from kaosmem.formats.labels import LabelStyle
from kaosmem.formats.text import line_of
from kaosmem.tokens import get_counter

_COUNTER = get_counter(len)
_PLAIN = LabelStyle()


def item_piece(item, style=_PLAIN, *, continued=False):
    """Return the piece of an item; if it is continued, below the first one of its group."""
    return line_of(item, style, _COUNTER).piece(continued=continued)
