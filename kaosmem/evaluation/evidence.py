"""Items, and questions with the items that answer them: files of JSON lines, read and checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from pydantic import TypeAdapter, ValidationError

from kaosmem.errors import InvalidArgumentError, KaosmemError, MissingFileError
from kaosmem.names import check_item_id, shown
from kaosmem.types.items import check_timestamp

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
        unanswerable: It has no answer. A file states it, so that no evidence is left out by mistake.
    """

    id: str
    query: str
    evidence_ids: tuple[str, ...] = ()
    category: str = ""
    stale_ids: tuple[str, ...] = ()
    as_of: str = ""
    unanswerable: bool = False


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


_OBJECT = TypeAdapter(dict[str, Any])
_ITEM = TypeAdapter(EvidenceItem)
_QUESTION = TypeAdapter(Question)

Entry = TypeVar("Entry", EvidenceItem, Question)


def read_items(path: PathLike) -> tuple[EvidenceItem, ...]:
    """Return the items of a file of JSON lines `{id, session, timestamp, role, text}`.

    `id` and `text` must be there.

    Raises:
        MissingFileError: If there is no such file.
        InvalidArgumentError: If a line is no item. The message names the file and the line.
    """
    return tuple(_entries(Path(path), "items", _ITEM, _check_item))


def _check_item(item: EvidenceItem) -> None:
    check_item_id(item.id)
    check_timestamp({"timestamp": item.timestamp})


def read_questions(path: PathLike, *, items: Iterable[EvidenceItem]) -> tuple[Question, ...]:
    """Return the questions of a file of JSON lines `{id, query, evidence_ids}`.

    A line may have `category`, `stale_ids` and `as_of` too. With `"unanswerable": true` its
    evidence may be empty. Raises MissingFileError, and InvalidArgumentError with file and line,
    also if no item has one of the ids.
    """
    known = {item.id: place for place, item in enumerate(items)}
    check = partial(_check_question, known)
    return tuple(_entries(Path(path), "questions", _QUESTION, check))


def _check_question(known: Mapping[str, int], line: Question) -> None:
    """Check a question about items whose places are known by id."""
    if not line.query.strip():
        raise InvalidArgumentError("'query' is empty; write the question")
    moment = (line.as_of,) if line.as_of else ()
    for name, ids in (
        ("as_of", moment),
        ("evidence_ids", line.evidence_ids),
        ("stale_ids", line.stale_ids),
    ):
        unknown = [each for each in ids if each not in known]
        if unknown:
            raise InvalidArgumentError(
                f"no item has the id {shown(unknown[0])} of {name!r}; add the item, or take the id "
                "out"
            )
    if not line.evidence_ids and not line.unanswerable:
        raise InvalidArgumentError(
            "'evidence_ids' is empty; give ids of items, or \"unanswerable\": true"
        )
    if line.as_of:
        later = [each for each in line.evidence_ids if known[each] > known[line.as_of]]
        if later:
            raise InvalidArgumentError(
                f"the evidence {shown(later[0])} comes after {shown(line.as_of)}, the last item that "
                "'as_of' lets exist; give a later 'as_of', or take the id out"
            )
    both = {*line.evidence_ids}.intersection(line.stale_ids)
    if both:
        raise InvalidArgumentError(
            f"{shown(min(both))} is both evidence and stale; leave it out of one of the two"
        )


def read_corpora(
    items: PathLike,
    questions: PathLike | None = None,
    *,
    datasets: Collection[str] = (),
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
    if path.is_dir():
        found = _files_in(path)
    else:
        found = {path: ""}
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


def _read_corpus(
    items: Path,
    questions: Path,
    dataset: str = "",
) -> Corpus:
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
    path: Path,
    kind: str,
    form: TypeAdapter[Entry],
    check: Callable[[Entry], object],
) -> Iterator[Entry]:
    """Yield the entry of each line that is not blank.

    Raises InvalidArgumentError that names the line.
    """
    first_lines: dict[str, int] = {}
    for number, line in _lines(path, kind):
        try:
            given = _OBJECT.validate_json(line)
            there = {name: value for name, value in given.items() if value is not None}
            made = form.validate_python(there)
            check(made)
            if made.id in first_lines:
                raise InvalidArgumentError(
                    f"the id {shown(made.id)} is that of line {first_lines[made.id]} too; give "
                    "each its own"
                )
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]
            where = "".join(f"{shown(str(name))}: " for name in fault["loc"])
            raise InvalidArgumentError(
                f"{str(path)!r}, line {number}: {where}{fault['msg']}; write one JSON object a "
                f"line, in UTF-8, with the fields of {kind}"
            ) from None
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
