"""`hanei explain`: every setting, what it may be, and what a change of it does to each component."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hanei.cli.common import app_option, load_app, output_option, show, table
from hanei.errors import HaneiError, WrongUse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hanei.app.application import App
    from hanei.plan.explore import Explored

LOCK = "effects.lock"
_BOUNDS = (
    ("minimum", ">= {}"),
    ("maximum", "<= {}"),
    ("minLength", "length >= {}"),
    ("maxLength", "length <= {}"),
    ("minItems", "items >= {}"),
    ("maxItems", "items <= {}"),
    ("pattern", "matches {}"),
    ("format", "format {}"),
)


@click.command("explain")
@click.argument("path", required=False)
@app_option()
@click.option("--lang", default="en", show_default=True, help="Language of labels, where the app has them.")
@click.option("--lock", is_flag=True, help=f"Write {LOCK}: setting, component, effect; to be committed.")
@click.option(
    "--check",
    "compare",
    is_flag=True,
    help=f"Exit with 1 if {LOCK} says something else: a change of code widened a restart.",
)
@click.option(
    "--lock-file",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path(LOCK),
    show_default=True,
    help="Where it is.",
)
@output_option("table", "json", "yaml", default="table")
def command(
    path: str | None, app: str | None, lang: str, lock: bool, compare: bool, lock_file: Path, output: str
) -> int:
    """What each setting is, and what a change of it does to each component.

    Learned by trying other valid values of every setting, in the sample and with each switch the other way; no cluster
    is asked. PATH shows one setting, or all below it.
    """
    from hanei.cli.purity import check
    from hanei.plan.explore import explore

    found = load_app(app)
    check(found)
    explored = explore(found, _progress)
    if lock:
        lock_file.write_text(lock_text(explored), encoding="utf-8")
        click.echo(f"wrote {lock_file}")
        return 0
    if compare:
        return _compare(lock_file, lock_text(explored))
    rows = settings_of(found, explored, lang)
    if path is not None:
        rows = [row for row in rows if row["setting"] == path or row["setting"].startswith(f"{path}.")]
        if not rows:
            raise WrongUse(f"{path}: is no setting of {found.kind.kind}", hint="hanei explain without a path lists all")
    if output != "table":
        show(rows, output)
        return 0
    _print(rows, list(found.components))
    shown = {row["setting"] for row in rows}
    for unread in (path for path in explored.unread if path in shown):
        click.echo(f"note: no component reads {unread}: changing it does nothing", err=True)
    return 0


def _progress(variants: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The variants of the sample, with a bar on a terminal."""
    error = sys.stderr
    if not error.isatty():
        yield from variants
        return
    with click.progressbar(variants, label="trying every setting", file=error, show_eta=False) as bar:
        yield from bar


def settings_of(app: App[Any], explored: Explored, lang: str) -> list[dict[str, Any]]:
    """One map per setting: label, type, bounds, default, doc and effects."""
    from hanei.app.settings import leaves
    from hanei.crd.definition import spec_schema
    from hanei.plan.explore import schema_leaves

    about = {leaf.path: leaf for leaf in leaves(app.settings)}
    rows = []
    defaults = _defaults(spec_schema(app))
    for path, schema in schema_leaves(spec_schema(app)):
        if path not in about:
            continue
        leaf = about[path]
        rows.append(
            {
                "setting": path,
                "label": leaf.about.label.get(lang) or leaf.about.label.get("en", ""),
                "type": _type(schema),
                "unit": leaf.about.unit,
                "bounds": _bounds(schema),
                "default": defaults.get(
                    path,
                    None
                    if leaf.required
                    else leaf.default
                    if isinstance(leaf.default, str | int | float | bool)
                    else None,
                ),
                "required": leaf.required,
                "class": leaf.about.klass,
                "doc": leaf.about.doc,
                "effects": {component: effect.value for component, effect in explored.effects[path].items()},
            }
        )
    return rows


def lock_text(explored: Explored) -> str:
    """The lock file: one line per setting and component that it touches."""
    lines = ["# setting\tcomponent\teffect: written by `hanei explain --lock`, checked by `hanei explain --check`"]
    for path, found in sorted(explored.effects.items()):
        touched = [(component, effect.value) for component, effect in found.items() if effect.value != "none"]
        lines += [f"{path}\t{component}\t{effect}" for component, effect in touched] or [f"{path}\t-\tnone"]
    return "\n".join(lines) + "\n"


def _compare(lock_file: Path, wanted: str) -> int:
    import difflib

    try:
        present = lock_file.read_text(encoding="utf-8")
    except OSError as error:
        raise HaneiError(f"{lock_file}: {error.strerror}", hint="write it with hanei explain --lock") from error
    if present == wanted:
        click.echo(f"{lock_file} is true.")
        return 0
    click.echo(
        "".join(difflib.unified_diff(present.splitlines(True), wanted.splitlines(True), str(lock_file), "now")),
        nl=False,
    )
    return 1


def _defaults(schema: Mapping[str, Any]) -> dict[str, Any]:
    """path → default, as the server fills it in: a group's default reaches its settings."""
    from hanei.crd.normalise import normalise
    from hanei.plan.effects import leaves_of

    def groups(node: Mapping[str, Any], path: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, inner in node.get("properties", {}).items():
            below = f"{path}.{key}" if path else key
            if "default" in inner:
                found |= dict(leaves_of(normalise(dict(inner), inner["default"]), below))
            found |= {name: value for name, value in groups(inner, below).items() if name not in found}
        return found

    return groups(schema, "")


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "|".join(str(item) for item in schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    if schema.get("type") == "object":
        return f"map of {_type(schema['additionalProperties'])}" if "additionalProperties" in schema else "object"
    return str(schema.get("type"))


def _bounds(schema: Mapping[str, Any]) -> str:
    found = [form.format(schema[key]) for key, form in _BOUNDS if key in schema]
    return ", ".join(found)


def _print(rows: list[dict[str, Any]], components: list[str]) -> None:
    import orjson

    short = [
        (
            row["setting"],
            f"{row['type']}{' ' + row['unit'] if row['unit'] else ''}",
            row["bounds"] if len(row["bounds"]) <= 40 else row["bounds"][:39] + "…",
            "(required)"
            if row["required"]
            else orjson.dumps(row["default"]).decode()
            if row["default"] is not None
            else "",
            *(effect if (effect := row["effects"][component]) != "none" else "-" for component in components),
        )
        for row in rows
    ]
    table(("setting", "type", "bounds", "default", *components), short)
    if len(rows) == 1:
        row = rows[0]
        click.echo(f"\n{row['label'] or row['setting']}: {row['doc']}\nclass: {row['class']}")
