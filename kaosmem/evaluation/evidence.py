"""Items, and questions with the items that answer them: files of JSON lines, read and checked."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias, TypeVar

from kaosmem.arguments import check_text
from kaosmem.errors import InvalidArgumentError, KaosmemError, MissingFileError
from kaosmem.names import check_item_id, shown, shown_number
from kaosmem.types import JSONValue

ITEMS_SUFFIX = ".items.jsonl"
QUESTIONS_SUFFIX = ".questions.jsonl"

PathLike: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class EvidenceItem:
    """One item of a corpus.

    Attributes:
        session: The conversation or document that it is from.
        timestamp: ISO 8601. Both may be empty, as the role.
        key: Items of one key are versions of one fact, the last of them the current one. Empty: it
            is no version.
    """

    id: str
    text: str
    session: str = ""
    timestamp: str = ""
    role: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the items that answer it.

    Attributes:
        evidence_ids: Ids of the items that answer it, in any order; empty for a question without an
            answer.
        category: Kind of question, under which reports group it.
        stale_ids: Ids of items that the evidence has superseded. They mislead unless the evidence
            is shown after them.
        as_of: Id of the last item that exists when the question is asked; later items are hidden.
            Empty: all exist.
    """

    id: str
    query: str
    evidence_ids: tuple[str, ...]
    category: str = ""
    stale_ids: tuple[str, ...] = ()
    as_of: str = ""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Items in order, oldest or first of a document first, and questions about them.

    Attributes:
        dataset: Name of its data set. The mean of a report is over data sets, the mean of a data
            set over its questions.
    """

    name: str
    items: tuple[EvidenceItem, ...]
    questions: tuple[Question, ...]
    dataset: str = ""

    def moments(self) -> Iterator[tuple[tuple[EvidenceItem, ...], tuple[Question, ...]]]:
        """Yield the questions that are asked at each moment, after the items that exist then."""
        asked: dict[str, list[Question]] = {}
        for question in self.questions:
            asked.setdefault(question.as_of, []).append(question)
        ends = {item.id: place for place, item in enumerate(self.items, 1)}
        for as_of, questions in asked.items():
            yield self.items[: ends.get(as_of)], tuple(questions)


def with_keys(corpora: Iterable[Corpus]) -> tuple[Corpus, ...]:
    """Return a corpus for each question with superseded items, as an application with keys has it.

    The superseded items and the newest evidence have one key. The newest evidence comes after all
    that it supersedes, and at no earlier time.
    """
    keyed = []
    for corpus in corpora:
        for items, questions in corpus.moments():
            for question in questions:
                if question.stale_ids:
                    name = f"{corpus.name}: {question.id}"
                    asked = (replace(question, as_of=""),)
                    keyed.append(Corpus(name, _keyed(items, question), asked, corpus.dataset))
    return tuple(keyed)


def _keyed(items: Sequence[EvidenceItem], question: Question) -> tuple[EvidenceItem, ...]:
    newest = [item for item in items if item.id in question.evidence_ids][-1:]
    stale = {*question.stale_ids}
    kept = []
    for item in items:
        if item in newest:
            continue
        if item.id in stale:
            item = replace(item, key=question.id)
        kept.append(item)
    for item in newest:
        last = max(
            (place for place, each in enumerate(items) if each.id in stale or each is item),
            default=0,
        )
        latest = max((each.timestamp for each in items if each.id in stale), default="")
        when = max(item.timestamp, latest) if item.timestamp else ""
        kept.insert(last, replace(item, key=question.id, timestamp=when))
    return tuple(kept)


Entry = TypeVar("Entry", EvidenceItem, Question)


def read_items(path: PathLike) -> tuple[EvidenceItem, ...]:
    """Return the items of a file of JSON lines `{id, session, timestamp, role, text}`.

    `id` and `text` must be there.

    Raises:
        MissingFileError: If there is no such file.
        InvalidArgumentError: If a line is no item. The message names the file and the line.
    """

    def item(fields: Mapping[str, JSONValue]) -> EvidenceItem:
        session, timestamp, role = (
            _text(fields, name, optional=True) for name in ("session", "timestamp", "role")
        )
        return EvidenceItem(
            check_item_id(_text(fields, "id")), _text(fields, "text"), session, timestamp, role
        )

    return tuple(_entries(Path(path), "items", item))


def read_questions(path: PathLike, *, items: Iterable[EvidenceItem]) -> tuple[Question, ...]:
    """Return the questions of a file of JSON lines `{id, query, evidence_ids}`.

    A line may have `category`, `stale_ids` and `as_of` too. With `"unanswerable": true` its
    evidence may be empty. Raises MissingFileError, and InvalidArgumentError with file and line,
    also if no item has one of the ids.
    """
    known = {item.id for item in items}

    def question(fields: Mapping[str, JSONValue]) -> Question:
        question_id = _text(fields, "id")
        query = _text(fields, "query")
        category, as_of = (_text(fields, name, optional=True) for name in ("category", "as_of"))
        if as_of and as_of not in known:
            raise InvalidArgumentError(
                f"no item has the id {shown(as_of)} of 'as_of'; add it, or leave 'as_of' out"
            )
        may_lack = fields.get("unanswerable") is True
        evidence = _ids(fields, "evidence_ids", known, optional=may_lack)
        stale = _ids(fields, "stale_ids", known, optional=True)
        if both := set(evidence) & set(stale):
            raise InvalidArgumentError(
                f"{shown(min(both))} is both evidence and stale; leave it out of one of the two"
            )
        return Question(question_id, query, evidence, category, stale, as_of)

    return tuple(_entries(Path(path), "questions", question))


def read_corpora(
    items: PathLike, questions: PathLike | None = None, *, datasets: Collection[str] = ()
) -> tuple[Corpus, ...]:
    """Return the corpus of a file of items and one of questions, or all corpora of a folder.

    A folder has files `<name>.items.jsonl` with `<name>.questions.jsonl` beside each, or such
    folders, each of them a data set. Its corpora come in order of their names.

    Args:
        datasets: Names of the data sets to read. By default all are read.

    Raises:
        MissingFileError: If a file or a data set is missing.
        InvalidArgumentError: If a line is no item or question.
    """
    path = Path(items)
    if questions is not None:
        return (_read_corpus(path, Path(questions)),)
    found = _files_in(path) if path.is_dir() else {path: ""}
    present = dict.fromkeys(filter(None, found.values()))
    if missing := [name for name in datasets if name not in present]:
        there = ", ".join(map(shown, present)) or "none"
        raise MissingFileError(
            f"no data set {shown(missing[0])} in {str(path)!r}; there are {there}"
        )
    chosen = set(datasets or found.values())
    return tuple(
        _read_corpus(each, _questions_beside(each), name)
        for each, name in found.items()
        if name in chosen
    )


def _files_in(folder: Path) -> dict[Path, str]:
    """Return the files of items in a folder, or in its folders, with the name of their data set."""
    if found := sorted(folder.glob(f"*{ITEMS_SUFFIX}")):
        return dict.fromkeys(found, "")
    if found := sorted(folder.glob(f"*/*{ITEMS_SUFFIX}")):
        return {each: each.parent.name for each in found}
    raise MissingFileError(
        f"no *{ITEMS_SUFFIX} in the folder {str(folder)!r}, nor in a folder in it; give a folder "
        "that holds some, "
        "or a file of items and a file of questions"
    )


def _read_corpus(items: Path, questions: Path, dataset: str = "") -> Corpus:
    read = read_items(items)
    name = items.name.removesuffix(ITEMS_SUFFIX).removesuffix(".jsonl")
    asked = read_questions(questions, items=read)
    return Corpus(f"{dataset}/{name}" if dataset else name, read, asked, dataset)


def _questions_beside(items: Path) -> Path:
    if not items.exists():
        raise MissingFileError(f"{str(items)!r} does not exist; check the path")
    if not items.name.endswith(ITEMS_SUFFIX):
        raise MissingFileError(
            f"no questions for {str(items)!r}; name their file too, or call the two "
            f"<name>{ITEMS_SUFFIX} and <name>{QUESTIONS_SUFFIX}"
        )
    return items.with_name(items.name.removesuffix(ITEMS_SUFFIX) + QUESTIONS_SUFFIX)


def _entries(
    path: Path, kind: str, entry: Callable[[Mapping[str, JSONValue]], Entry]
) -> Iterator[Entry]:
    """Yield the result of `entry` for each line that is not blank.

    Raises InvalidArgumentError that names the line.
    """
    first_lines: dict[str, int] = {}
    for number, line in _lines(path, kind):
        try:
            made = entry(_parsed(line))
            if made.id in first_lines:
                raise InvalidArgumentError(
                    f"the id {shown(made.id)} is that of line {first_lines[made.id]} too; give "
                    "each its own"
                )
        except KaosmemError as error:
            raise InvalidArgumentError(f"{str(path)!r}, line {number}: {error}") from None
        first_lines[made.id] = number
        yield made
    if not first_lines:
        raise InvalidArgumentError(
            f"{str(path)!r} has no {kind}; give a file of JSON objects, one a line"
        )


def _lines(path: Path, kind: str) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if stripped := line.removeprefix(b"\xef\xbb\xbf" if number == 1 else b"").strip():
                    yield number, stripped
    except (FileNotFoundError, NotADirectoryError):
        raise MissingFileError(f"no file of {kind} at {str(path)!r}; check the path") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise MissingFileError(
            f"the {kind} at {str(path)!r} can't be read: {error}; give a file"
        ) from None


def _parsed(line: bytes) -> Mapping[str, JSONValue]:
    try:
        value = json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            f"not UTF-8 at byte {error.start}; save the file as UTF-8"
        ) from None
    except json.JSONDecodeError as error:
        raise InvalidArgumentError(
            f"not JSON at column {error.colno} ({error.msg.lower()}); write one JSON object a line"
        ) from None
    except (RecursionError, ValueError):  # ValueError: an integer of thousands of digits
        raise InvalidArgumentError(
            "JSON that is nested too deep to be read; write one flat object a line"
        ) from None
    if not isinstance(value, dict):
        raise InvalidArgumentError(
            f"a JSON {_JSON_NAMES[type(value)]}; write one JSON object a line"
        )
    return value


_JSON_NAMES = {
    list: "array",
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


def _text(fields: Mapping[str, JSONValue], name: str, *, optional: bool = False) -> str:
    value = fields.get(name)
    if value is None:
        if optional:
            return ""
        there = ", ".join(shown(field) for field in list(fields)[:5]) or "none"
        raise InvalidArgumentError(f"no {name!r}; add it to the fields that are there: {there}")
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{name!r} is {shown_number(value)}; give a string")
    return check_text(value, repr(name))


def _ids(
    fields: Mapping[str, JSONValue], name: str, known: Collection[str], *, optional: bool
) -> tuple[str, ...]:
    """Return ids of items, each once. If they are not optional, there must be at least one."""
    ids = fields.get(name)
    if optional and (ids is None or ids == []):
        return ()
    if not isinstance(ids, list) or not ids or not all(isinstance(each, str) for each in ids):
        raise InvalidArgumentError(
            f"{name!r} is {shown_number(ids)}; give a list of ids of items, at least one"
        )
    unknown = next((each for each in ids if each not in known), None)
    if unknown is not None:
        raise InvalidArgumentError(
            f"no item has the id {shown(unknown)} of {name!r}; add the item, or take the id out"
        )
    return tuple(dict.fromkeys(ids))
