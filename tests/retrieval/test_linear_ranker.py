"""The default ranker: signals over what BM25 proposes, exact through changes, explained, and learned."""

import json
import math
import random
from dataclasses import replace
from itertools import cycle
from string import ascii_lowercase

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import signal_worth, train_ranker
from benchmarks.corpus import seeded_queries, seeded_texts, text_item
from benchmarks.learning import learn_weights, read_lessons
from kaosmem import DEFAULT_SECTIONS, DenseRanker, LinearRanker, Reason, SessionMemory
from kaosmem.errors import InvalidArgumentError
from kaosmem.evaluation.evidence import Corpus, EvidenceItem, Question
from kaosmem.language.analysis import analyze
from kaosmem.retrieval import linear_index
from kaosmem.retrieval.candidate_signals import HAND_SET_WEIGHTS
from kaosmem.retrieval.candidate_terms import CandidateTerms, RelevanceFeedback
from kaosmem.retrieval.columns import RaggedColumn
from kaosmem.retrieval.embedders import WordVectorEmbedder
from kaosmem.retrieval.linear_index import LinearIndex
from kaosmem.retrieval.query_terms import _with_errors
from kaosmem.retrieval.rankers import Weights, default_weights
from kaosmem.retrieval.scores import ONE
from tests.retrieval.changes import WORDS, document, items, words

RARE = [f"w{number}" for number in range(60)]  # of which few entries have any


def index_of(entries):
    index = LinearRanker().index()
    index.add(entries.items())
    return index


@given(entries=st.lists(items, max_size=60), query=words)
def test_the_signals_of_two_scores_say_how_they_differ(entries, query):
    """The best has 100, and the ratio of two scores is e to the power of the difference of their signals."""
    ranked = index_of(dict(enumerate(entries))).ranking(query, 60)
    if ranked.matches:
        (first, best), (last, least) = ranked.matches[0], ranked.matches[-1]
        assert best == 100
        difference = sum(ranked.signals(first).values()) - sum(ranked.signals(last).values())
        assert math.log(best / least) == pytest.approx(difference, abs=1e-5)


@given(entries=st.lists(items, max_size=60), query=words, limit=st.integers(0, 70))
def test_only_what_is_asked_for_is_ranked(entries, query, limit):
    """`among` and `limit` are kept, every entry comes once, and what has no word stays out, but for neighbours.

    Entries of one named source have neighbours, and so do those of a conversation.
    """
    index = index_of(dict(enumerate(entries)))
    among = set(range(0, len(entries), 2))
    ranked = index.rank(query, limit, among=among)
    assert len(ranked) <= limit
    assert len({ordinal for ordinal, _ in ranked}) == len(ranked)
    assert {ordinal for ordinal, _ in ranked} <= among
    asked = set(analyze(query))
    for ordinal, score in index.rank(query, 70):
        assert score > 0
        has_neighbours = entries[ordinal].metadata or index.is_conversation
        assert has_neighbours or asked & set(analyze(entries[ordinal].text))


@given(
    seed=st.integers(0, 1 << 32),
    sources=st.sampled_from([(), (None, None, None, "lease 2018"), (None, "w7", "notes")]),
    limit=st.integers(1, 15),
)
def test_the_best_are_found_without_scoring_all(seed, sources, limit):
    """Most entries have no word of a question, and most of the others can't be among the best: no answer differs."""
    rng = random.Random(seed)
    asked = rng.choices(RARE, k=8)
    query = " ".join(
        [*asked, *rng.choice([(), (".", "lease 2018?"), (".", *rng.choices(RARE, k=3), "?")])]
    )
    # Beside one that has all words, others have so few that one without any is as good if its
    # source is named.
    entries = {500: text_item(" ".join(asked))}
    for ordinal in rng.sample(range(500), 300):
        source = rng.choice(sources or (None,))
        text = (
            "lessor" if source == "lease 2018" else " ".join(rng.choices(RARE, k=rng.randrange(7)))
        )
        metadata = {} if source is None else {"source": source}
        entries[ordinal] = replace(text_item(text), role=rng.choice(WORDS[:2]), metadata=metadata)
    index = index_of(entries)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear_index, "CANDIDATES", 3)
        patch.setattr(linear_index, "_MATCHES_WITH_NEIGHBOURS", 1)
        found = index.ranking(query, limit)
        expected = index.ranking(query, limit, among=entries)
    assert found == expected
    assert [found.signals(each) for each, _ in found.matches] == [
        expected.signals(each) for each, _ in expected.matches
    ]


def test_the_document_that_is_asked_about_comes_first():
    """Of equal clauses in three contracts, the one of the contract that the question names."""
    clause = "Either party may terminate on thirty days notice."
    entries = {
        number: document(text, source)
        for number, (source, text) in enumerate(
            (source, text)
            for source in ("Acme Lease", "Zenith Supply", "Nordic Licence")
            for text in (
                f"This agreement is between {source.split()[0]} and us.",
                clause,
                "Signed in Zurich.",
            )
        )
    }
    ranked = index_of(entries).rank("Consider the Zenith supply agreement; who may terminate?", 9)
    assert ranked[0][0] == 4


def test_what_stands_beside_an_answer_is_a_candidate_where_a_source_is_named():
    """The line under a heading has no word of the question, and belongs to it."""
    texts = ["Termination", "Thirty days, in writing.", "Governing law", "Swiss."]
    named = index_of({number: document(text, "contract") for number, text in enumerate(texts)})
    assert 1 in dict(named.rank("termination", 4))
    unnamed = index_of({number: text_item(text) for number, text in enumerate(texts)})
    assert set(dict(unnamed.rank("termination", 4))) == {0}


def conversation(texts, roles=("user", "assistant")):
    said = zip(texts, cycle(roles), strict=False)
    return index_of(
        {number: replace(text_item(text), role=role) for number, (text, role) in enumerate(said)}
    )


def test_a_request_finds_a_standing_rule_that_it_does_not_name():
    """The newest rules are candidates for every query, and a rule ranks above other talk with the same words."""
    talk = [f"It rained all day in {place}." for place in RARE * 10]
    rule = "From now on, put a type on every name."
    texts = [*talk, "We wrote a function.", rule, *talk]
    ranked = [
        ordinal
        for ordinal, _ in conversation(texts, ("Ann", "Tim")).rank(
            "Write a function that sorts.", 2
        )
    ]
    assert set(ranked) == {texts.index(rule), texts.index(rule) - 1}
    texts = [*talk, "We test a function twice.", *talk[:40], "Always test a function twice.", *talk]
    ranked = [
        ordinal
        for ordinal, _ in conversation(texts, ("Ann", "Tim")).rank(
            "Write a function that sorts.", 1
        )
    ]
    assert texts[ranked[0]].startswith("Always")


@pytest.mark.parametrize("role", ["assistant", "tool", ""])
def test_only_people_set_rules(role):
    """A rule in an answer, in a tool's result or in a document ranks as any other text."""
    index = conversation(
        ["Talk of functions.", "Always test a function.", "More talk."], ("user", role)
    )
    ranking = index.ranking("Write a function.", 3)
    assert all(ranking.signals(ordinal).get("rule", 0.0) == 0.0 for ordinal, _ in ranking.matches)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is my name?", "Hi! I'm Dana, by the way. Nice to meet you."),
        ("How old am I?", "I’m 34 and still cannot swim."),
        ("What's my job?", "I work as a nurse, so nights are odd for me."),
        ("Where do I live?", "I've just moved to Lisbon and get lost every day."),
    ],
)
def test_what_speakers_say_of_themselves_is_found_by_what_it_is_called(question, answer):
    """Others speak of names and jobs, and the assistant introduces itself in each chat."""
    texts = []
    for number in range(40):
        texts += [f"The job of old {RARE[number]} has a name that I forgot.", "I'm Nova. Hello!"]
    texts[20] = answer
    index = conversation(texts, ("user", "assistant"))
    assert index.rank(question, 1)[0][0] == 20


def test_what_somebody_said_is_found_under_their_name():
    """Of two equal lines, the line of the person whom the question names."""
    index = conversation(["I play the piano.", "I play the piano."], ("Tim", "Ann"))
    assert [ordinal for ordinal, _ in index.rank("What does Tim play?", 2)] == [0, 1]


@pytest.mark.parametrize("words", ["", " in the tests"])
def test_the_tests_of_a_function_rank_below_its_definition(words):
    """A file of tests that all repeat the question's words comes after the definition, unless it is asked for."""
    texts = [("def wait_for(fut, limit):\n    return fut", "asyncio/tasks.py")]
    texts += [
        (f"async def helper_{n}(fut):\n    return {n}", f"lib/part_{n % 9}.py") for n in range(150)
    ]
    checks = "await asyncio.wait_for(foo, timeout)\n    assert the timeout of asyncio.wait_for is"
    texts += [
        (f"def test_wait_for_timeout_{n}():\n    {checks} {n}", "test/test_wait_for.py")
        for n in range(20)
    ]
    index = index_of({number: document(*each) for number, each in enumerate(texts)})
    ranked = index.ranking(f"What does asyncio.wait_for do on a timeout{words}?", 50)
    best = texts[ranked.matches[0][0]][1]
    assert best == ("test/test_wait_for.py" if words else "asyncio/tasks.py")
    assert sum(ranked.signals(0).values()) - sum(
        ranked.signals(ranked.matches[1][0]).values()
    ) == pytest.approx(math.log(dict(ranked.matches)[0] / ranked.matches[1][1]), abs=1e-6)


@pytest.mark.parametrize("role", ["", "user"])
def test_questions_that_repeat_the_query_do_not_hide_the_answer(role):
    """Three of them rank as any other text, and all that matches comes before the rest."""
    asked = "Where are the spectra of the zeolite samples stored?"
    texts = [f"Question {number}: {asked}" for number in range(100)]
    answer = "The spectra of all zeolite samples are on the server named grebe."
    other = "Zeolite is a mineral with pores."
    entries = [document(text, "", role) for text in (answer, *texts, other)]
    ranked = index_of(dict(enumerate(entries))).ranking(asked, 102)
    first = [ordinal for ordinal, _ in ranked.matches[:5]]
    assert {0, 101} < {*first}
    assert ranked.signals(ranked.matches[-1][0])["repetition"] < 0


@pytest.mark.parametrize(
    ("pattern", "asked"),
    [
        ("Did she pay? The customer C{n} has paid for {n} pans.", "Has customer C7 paid?"),
        ("How much is the deposit of flat {n}?", "What did I ask about the deposit of the flat?"),
        ("The deposit of the flat is due on day {n}.", "When is the deposit of the flat due?"),
    ],
)
def test_texts_that_say_more_than_the_query_are_no_repetitions(pattern, asked):
    """A question with its answer, questions about the same thing, and statements keep their ranks."""
    texts = [pattern.format(n=number) for number in range(20)]
    ranked = index_of({n: document(text, "") for n, text in enumerate(texts)}).ranking(asked, 20)
    assert all("repetition" not in ranked.signals(each) for each, _ in ranked.matches)


@pytest.mark.parametrize("tokens", [500, 2_000, 8_000])
def test_a_long_text_that_alone_has_the_asked_name_is_found(tokens):
    """It ranks among the first, whatever its length, though others share the question's form."""
    code = "the reader keeps a buffer and returns its lines one by one\n"
    entries = []
    for number in range(40):
        found = code * (tokens // 26)
        line = f"settings.retry_window_{number} = {4_000 + number}  # of module m{number}\n"
        said = [
            ("user", f"Please change module m{number}."),
            ("tool", found + line + found),
            ("assistant", "It is changed."),
        ]
        for role, text in said:
            entries.append(replace(document(text, "", role), tokens=len(text) // 4))
    ranked = index_of(dict(enumerate(entries))).rank(
        "Which value has settings.retry_window_21 in module m21?", 20
    )
    assert 3 * 21 + 1 in [ordinal for ordinal, _ in ranked[:5]]


@pytest.mark.parametrize(
    "line", ["MAX_HOPS = 20", "_MAX_HOPS: Final[int] = 20", "const MAX_HOPS = 20;"]
)
def test_the_line_that_assigns_a_constant_ranks_before_its_uses(line):
    """Code has no word for its definition."""
    texts = [(f"import os\n\n{line}\nOTHER = 3", "lib/config.py")]
    for number in range(60):
        use = f"if hops > MAX_HOPS or MAX_HOPS == {number}:\n    raise TooMany(MAX_HOPS)"
        texts.append((use, f"lib/part_{number % 9}.py"))
    index = index_of({number: document(*each) for number, each in enumerate(texts)})
    assert index.rank("What is MAX_HOPS?", 5)[0][0] == 0


def test_a_word_counts_more_than_the_source_in_a_small_collection():
    """Of thirty lines, the line with the asked word, though another source matches better."""
    texts = [
        "React hooks in depth.",
        *(f"A line about {letter * 3}." for letter in ascii_lowercase),
        "x",
        "y",
    ]
    entries = {number: document(text, "preference") for number, text in enumerate(texts)}
    entries[29] = document("The pages are written in react.", "entity")
    ranked = [ordinal for ordinal, _ in index_of(entries).rank("hooks of react", 30)]
    assert ranked[0] == 0
    assert ranked.index(29) < 8  # behind the neighbours of the best line alone


MISSPELT = {
    "typsecript": "Typescript in strict mode.",
    "mongod": "Mongo and mongodb.",
    "Mogno": "Mongo and mongodb.",
    "adress": "An address of ours.",
    "Kündigng": "Die Kündigung steht im Vertrag.",
    "договр": "Здесь лежит договор.",
    "المستاحر": "حقوق المستأجر.",
    "अनुबध": "यह अनुबंध है।",
    "משכנתה": "משכנתא לבית.",
}


@pytest.mark.parametrize("word", MISSPELT)
def test_a_misspelt_word_finds_the_word_that_is_meant(word):
    """Beside words that others have, too."""
    others = [f"The mode of number {number} is strict." for number in range(20)]
    texts = [*others, *sorted({*MISSPELT.values()})]
    index = index_of({number: text_item(text) for number, text in enumerate(texts)})
    for query in (word, f"Which mode has the {word}?"):
        best = index.rank(query, 1)[0][0]
        assert texts[best] == MISSPELT[word]


def test_a_word_of_many_alphabets_is_looked_up_in_few():
    """Each letter of each alphabet at each place would be some hundred thousand words."""
    word = "".join(chr(start) for start in range(0x0391, 0xFF00, 0x80) if chr(start).isalpha())
    assert len({*_with_errors(word)}) < 500 * len(word)


@pytest.mark.parametrize("word", ["2019", "rod", "grade", "leader", "convert"])
def test_a_word_that_may_be_right_is_not_replaced(word):
    """Numbers, short words and common English words are not misspelt, though no text has them."""
    texts = ["2018", "a red one", "by the grace of it", "a reader", "the convent"]
    index = index_of({number: text_item(text) for number, text in enumerate(texts)})
    assert index.rank(word, 5) == []


def terms_of(numbers, sizes):
    """Return the terms of texts of some sizes."""
    sequences = RaggedColumn()
    sequences.extend(numbers.astype(np.uint32), np.array(sizes, np.int64))
    return CandidateTerms(sequences, np.arange(len(sizes)))


def test_feedback_is_the_nearness_to_the_mean_of_the_matching_texts():
    """Vectors of tf-idf in floats, without rounding, give the same."""
    rng = np.random.default_rng(3)
    size, vocabulary = 200, 90
    texts = [1 + rng.integers(0, vocabulary, rng.integers(1, 40)) for _ in range(size)]
    matches = rng.random(size)
    asked = [5, 7]
    vectors = np.zeros((size, vocabulary + 1))
    for row, numbers in enumerate(texts):
        np.add.at(vectors[row], numbers, 1)
    entries = vectors.sum(axis=0)
    idf = np.log(1 + size / (entries + 0.5))
    idf[asked] = 0
    vectors *= idf * (entries > 1)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    mean = matches @ vectors
    nearness = vectors @ mean / np.linalg.norm(mean)
    terms = terms_of(np.concatenate(texts), list(map(len, texts)))
    found = RelevanceFeedback(terms, asked).similarities(np.rint(matches * ONE).astype(np.int64))
    assert np.allclose(found / ONE, nearness, atol=5e-3)


@pytest.mark.parametrize("vocabulary", [1, 2, 3])
@pytest.mark.parametrize("matches", [1, ONE // 2, ONE])
def test_no_sum_of_feedback_overflows(vocabulary, matches):
    """The largest and most alike texts that a query can have keep their order."""
    numbers = 1 + np.arange(416 * 256) % vocabulary
    near = RelevanceFeedback(terms_of(numbers, [256] * 416)).similarities(np.full(416, matches))
    assert ((near >= 0) & (near <= ONE)).all()


@pytest.mark.parametrize("source", ["", "hotel alpha"])
@pytest.mark.parametrize(
    ("pattern", "question"),
    [
        ("Room {} costs {} euros a night.", "What does room {} cost in hotel alpha?"),
        ("Invoice {} amounts to {} dollars.", "How much is invoice {} of hotel alpha?"),
        ("In {} the hotel sold {} rooms.", "How many rooms did hotel alpha sell in {}?"),
    ],
)
def test_the_record_with_the_number_that_is_asked_for_comes_first(pattern, question, source):
    """Of 300 records of one pattern, its look-alikes have all words of the question but the number."""
    numbers = range(1_000, 1_300)
    texts = [pattern.format(number, 10 * number + 3) for number in numbers]
    others = [pattern.format(number, 10 * number + 3) for number in range(1_000, 1_020)]
    items = [document(text, source) for text in texts]
    items += [document(text, f"hotel {name}") for name in "bcde" for text in others]
    index = index_of(dict(enumerate(items)))
    for number in numbers[:: 300 // 10]:
        ((first, _),) = index.rank(question.format(number), 1)
        assert str(number) in items[first].text


def test_an_answer_in_two_documents_is_found_in_both():
    """Where a question names no document, the best one does not bring all that it has before the others."""
    texts = {at: document(text, f"page {at // 40}") for at, text in enumerate(seeded_texts(400))}
    texts[45] = document("The ferry to Texel costs 38 euros for a car.", "page 1")
    texts[205] = document("A car on the ferry to Texel waits an hour in summer.", "page 5")
    index = index_of(texts)
    assert {ordinal for ordinal, _ in index.rank("ferry to Texel with a car", 2)} == {45, 205}


async def test_a_decision_names_the_signal_that_carried_an_item_in():
    """In `signals`, in `why`, and in the report that people read."""
    memory = SessionMemory.test_mode()
    for number, text in enumerate(seeded_texts(60)):
        memory.add("documents", text, metadata={"source": f"contract-{number % 5}"})
    context = await memory.assemble_context("notice in contract-3", budget=800)
    chosen = [each for each in context.decisions if each.reason is Reason.RELEVANT]
    assert chosen
    assert all(
        each.signals.keys()
        <= {*default_weights().named_documents, *HAND_SET_WEIGHTS, "passage", "second_hop"}
        for each in chosen
    )
    assert any(each.signals["source"] > 0 for each in chosen)
    assert (
        f"relevant by {max(chosen[0].signals, key=chosen[0].signals.__getitem__)}" == chosen[0].why
    )
    assert chosen[0].why in context.explain()
    unranked = await memory.assemble_context("", budget=300)
    assert all(not each.signals and " by " not in each.why for each in unranked.decisions)


@pytest.mark.parametrize(
    "question",
    ["Who signs the charter? What does the ferry cost?", "charter signature; ferry fare"],
)
async def test_each_part_of_a_question_is_answered(question):
    """Neither the last clause nor the most frequent word crowds out what the other part asks for."""
    memory = SessionMemory.test_mode()
    for number, text in enumerate(seeded_texts(400)):
        memory.add("documents", text, metadata={"source": f"contract-{number // 40}"})
    for text in (
        "The charter bears the signature of whoever signs it.",
        "The ferry fare: what it costs is nine crowns.",
    ):
        memory.add("documents", text, metadata={"source": "contract-3"})
    context = await memory.assemble_context(question, budget=1_000)
    shown = " ".join(item.text for item in context.items)
    assert "signature" in shown
    assert "crowns" in shown


def corpora(sources=12):
    """Two corpora in which what answers is the longest item of the source that is asked about."""
    found = []
    for name in ("one", "two"):
        rng = random.Random(name)
        held = []
        questions = []
        for number in range(sources):
            source = f"{name}{number}"
            texts = [" ".join(rng.sample(WORDS, 4)) for _ in range(9)]
            held += [EvidenceItem(f"{source}-{at}", text, source) for at, text in enumerate(texts)]
            held.append(
                EvidenceItem(
                    f"{source}-9", " ".join(rng.sample(WORDS, 4) + ["elsewhere"] * 30), source
                )
            )
            questions.append(Question(source, f"{source}: rent or notice?", (f"{source}-9",)))
        found.append(Corpus(name, tuple(held), tuple(questions)))
    return tuple(found)


def test_weights_are_learned_from_questions():
    """What tells answers from the rest gets weight, the same each time, and finds the answers to other questions."""
    one, two = corpora()
    any_size = {False: {"size": (-math.inf, math.inf)}}
    learned = learn_weights(read_lessons([one]), bounds=any_size)
    assert learned == learn_weights(read_lessons([one]), bounds=any_size)
    assert learned.documents["size"] > 1
    index = LinearRanker(weights=learned).index()
    index.add(
        (number, replace(document(item.text, item.session), tokens=len(item.text)))
        for number, item in enumerate(two.items)
    )
    firsts = [two.items[index.rank(each.query, 1)[0][0]].id for each in two.questions]
    assert (
        sum(first in each.evidence_ids for first, each in zip(firsts, two.questions, strict=True))
        >= 10
    )
    with pytest.raises(InvalidArgumentError, match="give more questions"):
        learn_weights([])


def saved_corpora(folder):
    """Return small corpora whose files are in a folder."""
    few = corpora(3)
    for corpus in few:
        lines = [
            json.dumps({"id": each.id, "session": each.session, "text": each.text})
            for each in corpus.items
        ]
        (folder / f"{corpus.name}.items.jsonl").write_text("\n".join(lines), encoding="utf-8")
        questions = [
            json.dumps({"id": each.id, "query": each.query, "evidence_ids": each.evidence_ids})
            for each in corpus.questions
        ]
        (folder / f"{corpus.name}.questions.jsonl").write_text(
            "\n".join(questions), encoding="utf-8"
        )
    return few


@pytest.mark.parametrize(
    "embedder", ["", "kaosmem.retrieval.embedders:WordVectorEmbedder"], ids=["linear", "dense"]
)
def test_the_script_that_learns_saves_and_validates(embedder, tmp_path, capsys):
    """On data of one's own: the weights as a file, and what they do on corpora that they were not learned from."""
    few = saved_corpora(tmp_path)
    saved = tmp_path / "weights.json"
    dense = ["--dense", "--embedder", embedder] if embedder else []
    train_ranker.main(["--data", str(tmp_path), "--save", str(saved), "--parts", *dense])
    ranker = DenseRanker(embedder=WordVectorEmbedder()) if embedder else LinearRanker()
    assert Weights.from_json(saved.read_text(encoding="utf-8")) == learn_weights(
        read_lessons(few, ranker=ranker)
    )
    printed = capsys.readouterr().out
    parts = train_ranker.PARTS | (train_ranker.DENSE_PARTS if embedder else {})
    for name in ("held out", *(f"without {part}" for part in parts), "BM25 alone"):
        assert name in printed
    took = dict(
        each.rsplit(" ", 1)
        for each in printed.split("of a ranking, in ms: ")[1].strip().split(", ")
    )
    assert took.keys() == train_ranker.STEPS.keys()
    assert 0 < float(took["meaning"]) < float(took["all"])
    known = default_weights("weights_dense.json" if embedder else "weights.json")
    assert {
        signal for signals in parts.values() for signal in signals
    } <= known.named_documents.keys() | known.conversation


def test_one_command_learns_all_weights(tmp_path):
    """Every file that comes with kaosmem is learned, with a weight of each signal."""
    saved_corpora(tmp_path)
    train_ranker.main(["--data", str(tmp_path), "--all", str(tmp_path)])
    for file in train_ranker.FILES:
        learned = Weights.from_json((tmp_path / file).read_text(encoding="utf-8"))
        assert learned.named_documents.keys() == default_weights(file).named_documents.keys()


def test_the_worth_of_each_signal_is_told(tmp_path, capsys):
    """Each signal with a weight has a row, and what fits is shown."""
    few = saved_corpora(tmp_path)
    signal_worth.main(["--data", str(tmp_path), "--budget", "64"])
    printed = capsys.readouterr().out
    for name in default_weights().documents:
        assert f"| `{name}` |" in printed
    for found in signal_worth.answers(few, budget=10**6, every=1):
        assert all(each.recalls[signal_worth.ALL] == each.proposed for each in found)


def test_weights_are_read_as_they_were_written():
    """Those that come with kaosmem name signals that there are, and bad ones are refused in words that help."""
    weights = default_weights()
    assert Weights.from_json(weights.to_json()) == weights
    (query,) = seeded_queries(1)
    for roles, asked, model in (
        (("",), query, weights.documents),
        (("",), f"{query} in contract-3", weights.named_documents),
        (("user", "assistant"), query, weights.conversation),
    ):
        index = index_of(
            {
                at: replace(document(text, f"contract-{at % 5}"), role=roles[at % len(roles)])
                for at, text in enumerate(seeded_texts(30))
            }
        )
        found = index.candidates(asked)
        assert bool(found.matches.named) == (model is not weights.documents)
        assert model.keys() <= found.signals.keys()
        if found.matches.named:
            assert found.signals.keys() - HAND_SET_WEIGHTS.keys() == model.keys()
        assert all(
            np.isfinite(each).all() and len(each) == len(found.ordinals)
            for each in found.signals.values()
        )
    for text in (
        "",
        "[]",
        '{"documents": {}}',
        '{"documents": {"words": "much"}, "conversation": {}}',
    ):
        with pytest.raises(InvalidArgumentError, match=r"Weights\.to_json"):
            Weights.from_json(text)


def test_the_default_ranker_is_the_linear_one():
    """A section without a ranker of its own is ranked by signals."""
    memory = SessionMemory.test_mode(sections=DEFAULT_SECTIONS)
    memory.add("documents", "rent")
    with memory["documents"].index.asked() as index:
        assert isinstance(index, LinearIndex)
