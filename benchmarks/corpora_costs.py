"""What a corpus on an object store costs: objects, requests, dollars and latency, from measured terms.

    python -m benchmarks.corpora_costs [--questions 1000000] [--delay-ms 20] [--picture FILE]

The terms come from runs of `benchmarks.bench_corpora --words 60 --s3` with 100,000 and 10,000,000
passages. Requests are those for the passages that a question reads, and for parts of the index,
whose number grows with the logarithm of the size. The first read and the memory of a client grow on
a line. `check` compares this with what a run with 1,000,000 measured, and the bytes stored of the
small run with those of both. Larger corpora are predictions. A question is a call of `candidates`
and a context: 675 passages are read.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from math import ceil, exp, log, log10
from pathlib import Path

READ = 675
"""The passages that a question of the benchmark reads, at most."""
ROWS_A_FILE = 1_048_576
_FIRST = 3
"""The run of a new client asks so many questions."""
AT_ONCE = 64
"""Requests that a client has under way at once."""


@dataclass(frozen=True)
class Prices:
    """List prices in dollars.

    S3 Standard and EC2 in us-east-1, by AWS's price pages; `m7g.large` as published in June 2026.
    Requests between EC2 and S3 of one region cost no transfer.
    """

    gb_month: float = 0.023
    get: float = 0.0004 / 1_000
    put: float = 0.005 / 1_000
    cpu_hour: float = 0.0816 / 2
    memory_gb_hour: float = 0.0816 / 8
    database_gb_month: float = 0.115
    database_memory_gb_hour: float = 0.065 / 4


@dataclass(frozen=True)
class Run:
    """The measured figures of one size.

    Attributes:
        megabytes: Size of the newest version, 0 if it was not measured.
        gets: Requests of a question whose client has opened the corpus.
        read_mb: What they read.
        cold_gets: Requests of a new client's first three questions.
        cold_mb: What they read.
    """

    passages: int
    megabytes: float
    gets: float
    read_mb: float
    cold_gets: int
    cold_mb: float
    client_mb: float


SMALL = Run(100_000, 61.1, 430, 12.3, 1_574, 53.0, 405)
MIDDLE = Run(1_000_000, 586, 872, 15.1, 3_235, 102, 495)
LARGE = Run(10_000_000, 6_390, 1_290, 13.7, 4_694, 413, 1_200)
PASSAGE_BYTES = 468
"""The mean size of a passage with its metadata, in the column that a question reads."""
READ_BYTES = 65_536
"""The engine reads from an object store in blocks of so many bytes, at least."""
INGEST_CPU_MS = 0.67
"""Milliseconds of CPU a passage of 60 words: read, analysed, written, indexed."""
PUTS_A_BATCH = 7
PASSAGES_A_BATCH = 5_000
QUESTION_CPU_MS = 472.0
"""Milliseconds of CPU of a question among 1,000,000 passages: the engine's, and kaosmem's ranking."""
SEARCH_MS = 40.0


@dataclass(frozen=True)
class Model:
    """Costs by the number of passages, with terms from two runs.

    Attributes:
        gets_a_decade: Requests for parts of the index, for each tenfold of the small run's size.
    """

    gets_a_decade: float
    mb_a_get: float
    mb_a_passage: float
    cold_mb_fixed: float
    cold_mb_a_passage: float
    client_mb_fixed: float
    client_mb_a_passage: float

    @classmethod
    def of(cls, small: Run = SMALL, large: Run = LARGE) -> Model:
        """Return the model whose terms come from two runs."""
        step = large.passages - small.passages
        cold = [_first_read(run) for run in (small, large)]
        of_index = large.gets - _blocks(large.passages)
        cold_step = (cold[1] - cold[0]) / step
        client_step = (large.client_mb - small.client_mb) / step
        return cls(
            gets_a_decade=of_index / log10(large.passages / small.passages),
            mb_a_get=large.read_mb / large.gets,
            mb_a_passage=small.megabytes / small.passages,
            cold_mb_fixed=cold[0] - cold_step * small.passages,
            cold_mb_a_passage=cold_step,
            client_mb_fixed=small.client_mb - client_step * small.passages,
            client_mb_a_passage=client_step,
        )

    def gets(self, passages: int) -> float:
        """Return the requests of a question: blocks that hold a passage, and parts of the index."""
        decades = max(0.0, log10(passages / SMALL.passages))
        return _blocks(passages) + self.gets_a_decade * decades

    def gigabytes(self, passages: int) -> float:
        return self.mb_a_passage * passages / 1_000

    def objects(self, passages: int) -> int:
        """Return the number of objects of the newest version: 14 of indices and manifests."""
        return 14 + ceil(passages / ROWS_A_FILE)

    def cold_mb(self, passages: int) -> float:
        """Return what a new client reads before its first answer."""
        return self.cold_mb_fixed + self.cold_mb_a_passage * passages

    def client_gb(self, passages: int) -> float:
        return (self.client_mb_fixed + self.client_mb_a_passage * passages) / 1_000

    def warm_s(self, passages: int, delay_s: float, megabytes_s: float) -> float:
        """Return the seconds of a question: its requests in rounds, its bytes, and its CPU.

        The engine reads longer lists of words in a larger corpus: a search took 24 ms among 10,000
        passages, 40 ms among 1,000,000 and 124 ms among 10,000,000. A question makes three.
        """
        rounds = 6 + self.gets(passages) / AT_ONCE
        megabytes = self.gets(passages) * self.mb_a_get
        growth: float = (passages / 10**6) ** 0.4
        searching_ms = 3 * SEARCH_MS * (growth - 1)
        cpu_s = (QUESTION_CPU_MS + searching_ms) / 1_000
        return rounds * delay_s + megabytes / megabytes_s + cpu_s

    def cold_s(self, passages: int, delay_s: float, megabytes_s: float) -> float:
        """Return the seconds of a new client's first question."""
        own = 10 * delay_s + self.cold_mb(passages) / megabytes_s
        return own + self.warm_s(passages, delay_s, megabytes_s)


def _first_read(run: Run) -> float:
    """Return the megabytes that a new client reads before its first answer."""
    return run.cold_mb - _FIRST * run.read_mb


def _blocks(passages: int) -> float:
    """Return how many blocks hold the passages that a question reads, if they lie anywhere."""
    blocks = max(2.0, passages * PASSAGE_BYTES / READ_BYTES)
    return blocks * (1 - exp(READ * log(1 - 1 / blocks)))


def monthly(model: Model, passages: int, questions: int, prices: Prices) -> dict[str, float]:
    """Return the dollars of a month, and those of building the corpus once."""
    batches = passages / PASSAGES_A_BATCH
    build = INGEST_CPU_MS * passages / 3.6e6 * prices.cpu_hour + batches * PUTS_A_BATCH * prices.put
    answering = questions * QUESTION_CPU_MS / 3.6e6 * prices.cpu_hour
    return {
        "storage": model.gigabytes(passages) * prices.gb_month,
        "requests": questions * model.gets(passages) * prices.get,
        "cpu": answering,
        "memory": model.client_gb(passages) * 730 * prices.memory_gb_hour,
        "build": build,
    }


def check() -> dict[str, tuple[float, float]]:
    """Return what the model says of runs that its terms are not from, and what was measured."""
    model = Model.of()
    size = MIDDLE.passages
    return {
        "GETs a question of 100,000": (model.gets(SMALL.passages), SMALL.gets),
        "GETs a question of 1,000,000": (model.gets(size), MIDDLE.gets),
        "first read of 1,000,000": (model.cold_mb(size), _first_read(MIDDLE)),
        "client of 1,000,000": (1_000 * model.client_gb(size), MIDDLE.client_mb),
        "megabytes of 1,000,000": (1_000 * model.gigabytes(size), MIDDLE.megabytes),
        "megabytes of 10,000,000": (1_000 * model.gigabytes(LARGE.passages), LARGE.megabytes),
    }


def rows(model: Model, questions: int, delay_s: float, prices: Prices) -> list[list[str]]:
    """Return the table of docs/scale.md."""
    table = []
    for passages in (10**6, 10**7, 10**8, 10**9):
        cost = monthly(model, passages, questions, prices)
        table.append(
            [
                f"{passages:,}",
                f"{model.objects(passages):,}",
                f"{model.gigabytes(passages):,.1f} GB",
                f"{model.gets(passages):,.0f}",
                f"{model.cold_mb(passages):,.0f} MB",
                f"{model.client_gb(passages):,.1f} GB",
                f"{model.warm_s(passages, delay_s, 100):.1f} s",
                f"{model.cold_s(passages, delay_s, 100):,.0f} s",
                f"${cost['storage']:,.2f}",
                f"${cost['requests']:,.0f}",
                f"${cost['cpu'] + cost['memory']:,.0f}",
                f"${cost['build']:,.2f}",
            ]
        )
    return table


def draw(path: Path, model: Model, delay_s: float) -> None:
    """Draw latency by cache and the size of a client over the number of passages."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    sizes = [round(10 ** (5 + step / 4)) for step in range(17)]
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "kaosmem", "font.size": 10}):
        figure = Figure(figsize=(8, 3.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        for name, seconds, style in (
            ("first question of a client", model.cold_s, "--"),
            ("later questions", model.warm_s, "-"),
        ):
            values = [seconds(size, delay_s, 100) for size in sizes]
            left.plot(sizes, values, style, color="#0072B2", linewidth=2, label=name)
        left.set_ylabel("seconds")
        left.legend(frameon=False)
        for name, values, style in (
            ("stored", [model.gigabytes(size) for size in sizes], "-"),
            ("memory of a client", [model.client_gb(size) for size in sizes], "--"),
        ):
            right.plot(sizes, values, style, color="#777777", linewidth=2, label=name)
        right.set_ylabel("GB")
        right.legend(frameon=False)
        for axes in (left, right):
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.minorticks_off()
            axes.axvspan(sizes[0], LARGE.passages, color="#0072B2", alpha=0.08, linewidth=0)
            axes.set_xlabel("passages (shaded: between the two runs)", loc="left")
            axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, metadata={"Date": None}, facecolor="white")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=1_000_000, help="of a month")
    parser.add_argument("--delay-ms", type=float, default=20.0, help="of a request")
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    for name, (predicted, measured) in check().items():
        print(f"{name}: predicted {predicted:,.1f}, measured {measured:,.1f}")
    model = Model.of()
    delay_s = given.delay_ms / 1_000
    for row in rows(model, given.questions, delay_s, Prices()):
        print(f"| {' | '.join(row)} |")
    if given.picture:
        draw(given.picture, model, delay_s)


if __name__ == "__main__":
    main()
