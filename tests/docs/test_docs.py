"""The documentation is true: pages are current, names are documented, links lead somewhere, examples run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hanei.observe.metrics import Metrics
from hanei.operator import project, status
from hanei.render import labels

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def test_generated_pages_are_current() -> None:
    """`make docs` writes them. Asked of a process of its own: click remembers the options of commands that were run."""
    code = (
        "import json, runpy; pages = runpy.run_path('docs/generate.py')['PAGES']\n"
        "print(json.dumps({name: page() for name, page in pages.items()}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    for name, page in json.loads(done.stdout).items():
        assert page == (ROOT / "docs" / "reference" / name).resolve().read_text(encoding="utf-8"), (
            f"{name} is stale: make docs"
        )


def test_every_label_and_annotation_is_documented() -> None:
    """The constants of the code, and those of the operator."""
    page = text("docs/reference/labels.md")
    found = {
        value
        for key, value in vars(labels).items()
        if key.isupper() and isinstance(value, str) and "/" in value and key != "PREFIX"
    }
    for key in (*found, project.GOOD):
        assert f"`{key}`" in page, key


def test_every_condition_reason_and_state_is_documented() -> None:
    """Whatever the code can put into a status."""
    page = text("docs/reference/status.md")
    sources = "".join(
        text(f"src/hanei/{name}")
        for name in (
            "operator/status.py",
            "operator/apply.py",
            "operator/patience.py",
            "plan/decide.py",
            "plan/readiness.py",
        )
    )
    words = set(
        re.findall(r'"(Ready|Reconciling|Stalled|SchemaCurrent|Progressing|Waiting|Suspended|Absent)"', sources)
    )
    words |= set(re.findall(r'Blocked\(\s*[\w.]+,\s*"\w+",\s*"(\w+)"', sources))
    words |= set(re.findall(r'\("False", "(\w+)"', sources)) | set(re.findall(r'"reason": "(\w+)"', sources))
    words |= set(re.findall(r'Progress\([^)]*?"\w+", "(\w+)"', sources))
    assert len(words) > 15
    for word in words - {"reason"}:
        assert f"`{word}`" in page, word
    assert status.MESSAGE_LIMIT == 1000


def test_every_metric_is_documented() -> None:
    """By the names that Prometheus sees."""
    page = text("docs/reference/metrics.md")
    for line in Metrics().text().decode().splitlines():
        if line.startswith("# HELP hanei_"):
            name = line.split()[2]
            assert name in page or name.removesuffix("_total") in page, name


def test_every_environment_variable_is_documented() -> None:
    """Those that the source reads or sets."""
    page = text("docs/reference/environment.md")
    found = set()
    for file in (ROOT / "src").rglob("*.py"):
        found |= set(re.findall(r"\b(HANEI_[A-Z]+(?:_[A-Z]+)*)\b", file.read_text(encoding="utf-8")))
    for name in found - {"HANEI_DOWNLOAD_BASE"}:
        assert name in page, name


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    """Relative links only; the outside is not asked."""
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http:", "https:", "mailto:")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_readme_shows_ochacafe_as_it_is() -> None:
    """The first example is the real file."""
    block = re.search(r"<!-- ochacafe -->\n```python\n(.*?)```", text("README.md"), re.DOTALL)
    assert block is not None
    assert block[1] == text("apps/ochacafe/src/ochacafe/app.py")


def test_every_situation_of_this_round_has_a_test_that_exists_and_is_listed() -> None:
    """Rows of issue A; `docs/situations.md` names each test."""
    page = text("docs/situations.md")
    names = set()
    for file in (ROOT / "tests").rglob("test_*.py"):
        names |= set(re.findall(r"def (test_\w+)", file.read_text(encoding="utf-8")))
    rows = [line.split("\t") for line in text("tests/data/situations.tsv").splitlines()[1:]]
    for row in rows:
        mine = {name for name in names if f"_{row[0].lower()}_" in name}
        if row[1] == "A":
            assert mine, f"{row[0]} has no test"
        for name in mine:
            assert f"`{name}`" in page, f"{name} is not in docs/situations.md"
    for name in re.findall(r"`(test_\w+)`", page):
        assert name in names, f"{name} is gone"


def test_the_layout_in_agents_md_is_true() -> None:
    """Every module is listed, and nothing that is not there."""
    page = text("AGENTS.md")
    listed = set(re.findall(r"^- `((?:src|apps)/[^` ]+\.py)`", page, re.MULTILINE))
    there = {
        str(file.relative_to(ROOT))
        for folder in ("src/hanei", "apps")
        for file in (ROOT / folder).rglob("*.py")
        if file.name != "__init__.py"
    }
    assert listed == there


def test_the_numbers_of_the_figure_stand_in_the_code() -> None:
    """③ to ⑧ are the steps of the reconcile."""
    figure, code = text("docs/architecture.md"), text("src/hanei/operator/reconcile.py")
    for number in "③④⑤⑥⑦⑧":
        assert figure.count(number) == code.count(f"# {number}") == 1


def test_the_tutorials_app_works_as_written(tmp_path: Path) -> None:
    """Its first block is a module; crd and explain print what the page shows."""
    page = text("docs/tutorial.md")
    (tmp_path / "greeter.py").write_text(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0], encoding="utf-8")
    command = [sys.executable, "-m", "hanei.cli.main"]
    explained = subprocess.run(
        [*command, "explain", "--app", "greeter:app"], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    shown = re.search(r"\$ hanei explain --app greeter:app\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    assert explained.stdout == shown[1]
    crd = subprocess.run(
        [*command, "crd", "--app", "greeter:app"], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert "greeters.greeter.example.com" in crd.stdout


def test_no_page_and_no_source_names_a_registry_or_this_machine() -> None:
    """What is committed works anywhere."""
    tracked = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT, check=True).stdout.split()
    for name in tracked:
        file = ROOT / name
        if (
            file.suffix in (".py", ".md", ".toml", ".lock", ".in", ".yaml", "")
            and file.is_file()
            and file.name != "test_docs.py"
        ):
            content = file.read_text(encoding="utf-8", errors="replace")
            for host in (
                "pypi.org",
                "pythonhosted.org",
                "proxy.golang.org",
                "sum.golang.org",
                "registry.npmjs",
                "crates.io",
                "/root/",
                "/work/main",
            ):
                assert host not in content, f"{name}: {host}"
