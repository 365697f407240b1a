"""Row F22 of `tests/data/faults.tsv`: a name is always derived, so that a request may be sent twice."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_f22_the_server_is_never_asked_to_make_up_a_name() -> None:
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "apps").rglob("src/**/*.py")]
    assert len(sources) > 50
    assert [file.name for file in sources if '"generateName":' in file.read_text(encoding="utf-8")] == []
