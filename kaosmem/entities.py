"""Entities and relationships of a graph, and the line of text that shows each."""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

from kaosmem.arguments import check_metadata, check_text, json_text
from kaosmem.errors import InvalidArgumentError, InvalidNameError
from kaosmem.names import MAX_ID_CHARS, check_item_id, shown, shown_name
from kaosmem.types import JSONDict, JSONObject
from kaosmem.types.items import check_timestamp, date_text, time_of
from kaosmem.types.versions import Interval, aware, interval_text

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_ARROW = re.compile(r"-(?=\[)|\](?=->)")
_DIGEST_CHARS = 16
_ENDS = ("valid_from", "valid_until")
_IN_LABELS = ("source", "timestamp", "speaker")


@dataclass(frozen=True, slots=True)
class Entity:
    """A thing with a name.

    Raises InvalidNameError for the id, InvalidArgumentError for the rest.

    Attributes:
        id: The name in relationships, 1 to 256 characters without control characters.
        name: The name for people; the default is the id.
        aliases: Further names.
        type: Its kind.
        properties: Further facts about it, as JSON holds them. `source` and `timestamp` appear in
            its label.

    >>> Entity("acme", "Acme Corp", "company", "supplier of bolts", aliases=("Acme",)).line
    'Acme Corp (company), also Acme: supplier of bolts'
    """

    id: str
    name: str = field(default="", repr=False)
    type: str = ""
    description: str = field(default="", repr=False)
    aliases: tuple[str, ...] = field(default=(), repr=False)
    properties: JSONObject = field(default_factory=dict, repr=False, hash=False)

    def __post_init__(self) -> None:
        _check_id(self.id, "entity id")
        for name in ("name", "type", "description"):
            _check_text(getattr(self, name), f"{name} of entity", self.id)
        if isinstance(self.aliases, str) or not isinstance(self.aliases, Iterable):
            raise InvalidArgumentError(
                f"aliases of entity {shown(self.id)} are a {type(self.aliases).__name__}; give a "
                "list of names"
            )
        object.__setattr__(self, "aliases", tuple(self.aliases))
        for alias in self.aliases:
            _check_text(alias, "an alias of entity", self.id)
        _keep_properties(self)

    @classmethod
    def of(cls, given: Entity | JSONObject) -> Entity:
        """Return an entity given as one or as a mapping of its fields.

        Raises as the constructor.
        """
        return _made(cls, given)

    @property
    def label(self) -> str:
        """Return the one line of text that it is called by."""
        return safe_line(self.name) or safe_line(self.id)

    @property
    def names(self) -> tuple[str, ...]:
        """Return all that it is called, its label first."""
        return (self.label, *filter(None, map(safe_line, self.aliases)))

    @property
    def item_id(self) -> str:
        """Return the id of the item that describes it."""
        return entity_item_id(self.id)

    @property
    def metadata(self) -> JSONDict:
        """Return it as the metadata of an item."""
        return _for_labels(self) | {"entity": _stored(self)}

    @property
    def line(self) -> str:
        """Return it as one line: `Acme Corp (company), also Acme: supplier of bolts`."""
        label, *aliases = dict.fromkeys(self.names)
        kind = safe_line(self.type)
        title = f"{label} ({kind})" if kind else label
        return _described(", also ".join([title, *aliases]), self.description)


@dataclass(frozen=True, slots=True)
class Relationship:
    """A relation from one entity to another.

    Ids and types are 1 to 256 characters without control characters.
    Raises InvalidNameError for these, InvalidArgumentError for the rest.

    Attributes:
        source, target: Ids of entities.
        type: The relation, such as `supplies`.
        properties: Further facts about it, as JSON holds them. `source` and `timestamp` appear in
            its label. `valid_from` and `valid_until` say in ISO 8601 when it began and ceased to
            hold, and appear in its line. A year or a month stands for its first moment.
        id: Identifies it. The default follows from source, type and target, so that these three
            identify it. Give ids to relationships that have all three in common, such as two jobs
            at one company.

    >>> Relationship("acme", "beta", "supplies", "since 2019").line("Acme", "Beta Ltd")
    'Acme -[supplies]-> Beta Ltd: since 2019'
    >>> job = Relationship("ann", "acme", "works at", properties={"valid_from": "2019-05-01"})
    >>> job.line("Ann", "Acme")
    'Ann -[works at]-> Acme (since 1 May 2019)'
    >>> job.id
    '["ann","works at","acme"]'
    """

    source: str
    target: str
    type: str
    description: str = field(default="", repr=False)
    properties: JSONObject = field(default_factory=dict, repr=False, hash=False)
    id: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        for name in ("source", "target", "type"):
            _check_id(getattr(self, name), f"relationship {name}")
        _check_text(self.description, "description of a relationship of", self.source)
        _keep_properties(self)
        for name in _ENDS:
            check_timestamp(self.properties, name)
        if self.id == "":
            object.__setattr__(self, "id", self._default_id)
        else:
            check_relationship_id(self.id)

    @classmethod
    def of(cls, given: Relationship | JSONObject) -> Relationship:
        """Return a relationship given as one or as a mapping of its fields.

        Raises as the constructor.
        """
        return _made(cls, given)

    @property
    def _default_id(self) -> str:
        return _shortened(json_text([self.source, self.type, self.target]))

    @property
    def item_id(self) -> str:
        """Return the id of the item that describes it."""
        return relationship_item_id(self.id)

    @property
    def metadata(self) -> JSONDict:
        """Return it as the metadata of an item."""
        stored = _stored(self)
        if self.id == self._default_id:
            del stored["id"]
        return _for_labels(self) | {"relationship": stored}

    @property
    def validity(self) -> Interval:
        """Return the interval in which it holds.

        An end that the properties do not say is None.
        """
        return Interval(
            time_of(self.properties.get("valid_from")),
            time_of(self.properties.get("valid_until")),
        )

    def line(self, source: str, target: str) -> str:
        """Return it as one line between the labels of its ends: `Acme -[supplies]-> Beta Ltd: since 2019`."""
        stated = [date_text(self.properties.get(name)) for name in _ENDS]
        text = interval_text(*stated)
        interval = f" ({text})" if text else ""
        return _described(
            f"{source} -[{safe_line(self.type)}]-> {target}{interval}", self.description
        )


@dataclass(frozen=True, slots=True)
class SubGraph:
    """A part of a graph: entities, and relationships between them.

    >>> graph = SubGraph(
    ...     (Entity("ann"), Entity("acme"), Entity("oslo")),
    ...     (
    ...         Relationship("ann", "acme", "works at", properties={"valid_until": "2023-02-01"}),
    ...         Relationship("acme", "oslo", "based in", properties={"valid_from": "2010-01-01"}),
    ...     ),
    ... )
    >>> [entity.id for entity in graph.as_of(datetime(2024, 1, 1)).entities]
    ['ann']
    """

    entities: tuple[Entity, ...] = ()
    relationships: tuple[Relationship, ...] = ()

    def as_of(self, time: datetime) -> SubGraph:
        """Return the part that relationships valid at a time connect to the first entity.

        Without a zone it is UTC.
        """
        if not self.entities:
            return self
        from networkx import Graph, node_connected_component

        held = [each for each in self.relationships if each.validity.covers(aware(time))]
        graph = Graph((each.source, each.target) for each in held)
        graph.add_node(self.entities[0].id)
        reached = node_connected_component(graph, self.entities[0].id)
        entities = tuple(entity for entity in self.entities if entity.id in reached)
        return SubGraph(entities, tuple(each for each in held if each.source in reached))


GraphPart: TypeAlias = Entity | Relationship
_P = TypeVar("_P", Entity, Relationship)


def entity_item_id(entity_id: str) -> str:
    """Return the id of the item that describes an entity."""
    return _shortened(f"entity:{entity_id}")


def relationship_item_id(relationship_id: str) -> str:
    """Return the id of the item that describes a relationship."""
    return _shortened(f"relationship:{relationship_id}")


def check_relationship_id(given: object) -> str:
    """Return the id of a relationship. Raises InvalidNameError."""
    _check_id(given, "relationship id")
    return str(given)


def graph_part_of(metadata: JSONObject) -> GraphPart | None:
    """Return the entity or relationship that an item's metadata holds, or None."""
    for kind, name in ((Relationship, "relationship"), (Entity, "entity")):
        stored = metadata.get(name)
        if isinstance(stored, Mapping):
            try:
                return kind.of(stored)
            except InvalidArgumentError:
                return None
    return None


def safe_line(text: str) -> str:
    """Return text on one line, in which nothing looks like the arrow of a relationship."""
    line = " ".join(_CONTROL.sub(" ", text).split())
    return _ARROW.sub(r"\g<0> ", line)


def _described(title: str, description: str) -> str:
    line = safe_line(description)
    if line:
        return f"{title}: {line}"
    return title


def _shortened(identity: str) -> str:
    """Return an identity as an id; one that is too long ends in its hash."""
    if len(identity) < MAX_ID_CHARS - _DIGEST_CHARS:
        return identity
    digest = hashlib.sha256(identity.encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{identity[: MAX_ID_CHARS - _DIGEST_CHARS - 1]}+{digest}"


def _check_id(given: object, what: str) -> None:
    try:
        if not check_item_id(given).isspace():
            return
    except InvalidNameError:
        pass
    raise InvalidNameError(
        f"{what} {shown_name(given)} is not valid: use 1 to {MAX_ID_CHARS} characters without "
        "control characters "
        "or lone surrogates, not only white space"
    )


def _keep_properties(part: GraphPart) -> None:
    """Check and copy the properties of an entity or a relationship. Raises InvalidArgumentError."""
    object.__setattr__(part, "properties", check_metadata(part.properties, "properties"))


def _check_text(
    given: object,
    what: str,
    owner: str,
) -> None:
    if not isinstance(given, str) or not given.isascii():
        check_text(given, f"{what} {shown(owner)}")  # type: ignore[arg-type]


def _made(kind: type[_P], given: _P | JSONObject) -> _P:
    if isinstance(given, kind):
        return given
    fields: Any = given
    try:
        return kind(**fields)
    except TypeError:
        raise InvalidArgumentError(
            f"this is no {kind.__name__} of a graph; give one, or a mapping of its fields: "
            f"{', '.join(kind.__slots__)}"
        ) from None


def _for_labels(part: GraphPart) -> JSONDict:
    """Return the properties that the label of an item shows."""
    return {
        name: part.properties[name]
        for name in _IN_LABELS
        if isinstance(part.properties.get(name), str)
    }


def _stored(part: GraphPart) -> JSONDict:
    """Return the fields that are not empty as JSON values."""
    values = ((name, getattr(part, name)) for name in part.__slots__)
    return {
        name: list(value) if isinstance(value, tuple) else copy.deepcopy(value)
        for name, value in values
        if value
    }
