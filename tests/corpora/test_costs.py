"""The model of costs: what it predicts was measured, and the page shows what it says."""

from __future__ import annotations

from pathlib import Path

from benchmarks.corpora_costs import Model, Prices, check, rows

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"


def test_the_model_predicts_what_was_measured():
    """Requests and bytes are within 15 percent of the prediction, the first read within a third."""
    for name, (predicted, measured) in check().items():
        bound = 1.5 if "first read" in name else 1.15
        assert 1 / bound < predicted / measured < bound, name


def test_the_page_has_the_table_of_the_model():
    """The figures of docs/scale.md are those of the model with the default prices."""
    model = Model.of()
    page = PAGE.read_text(encoding="utf-8")
    for row in rows(model, 1_000_000, 0.02, Prices()):
        assert f"| {' | '.join(row)} |" in page
