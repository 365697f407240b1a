"""An existing cluster under a name of ours: a kubeconfig of our own that points to it, and nothing else.

The copy has the wanted context as its current one and absolute paths, so everything that works with a local cluster
(`kubeconfig`, `status`, the test kit) works with this one, and the user's file is never written.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import yaml

from hanei.cluster import http, record, start
from hanei.cluster.model import Cluster, Node
from hanei.errors import ClusterError, WrongUse

_FILES = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
"""The fields of a kubeconfig that name a file, relative to it."""


def default_kubeconfig() -> Path:
    """Where kubectl looks without --kubeconfig."""
    given = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    if len(given) > 1:
        raise WrongUse("KUBECONFIG names several files", hint="say which one: --kubeconfig FILE")
    return Path(given[0]) if given else Path.home() / ".kube" / "config"


def register(folder: Path, source: Path, context: str | None) -> Cluster:
    """Make, or make anew, the note of an existing cluster that answers. ClusterError names file, context and server."""
    content = _read(source)
    content["current-context"] = _context(source, content, context)
    _absolute(content, source.parent)
    draft = folder.with_name(f".{folder.name}.new")
    draft.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft.unlink(missing_ok=True)
    draft.touch(mode=0o600)
    try:
        draft.write_text(json.dumps(content, default=str))
        server = _answering(draft, f"{source}: context {content['current-context']}")
        folder.mkdir(mode=0o700, exist_ok=True)
        draft.replace(folder / record.KUBECONFIG)
    finally:
        draft.unlink(missing_ok=True)
    record.write_existing(folder, server)
    found = record.read(folder)
    assert found is not None
    return found[0]


def as_it_is(kubeconfig: Path) -> Cluster:
    """The current context of a file, under no name of ours."""
    return Cluster(
        kubeconfig.stem,
        kubeconfig.parent,
        kubeconfig,
        _answering(kubeconfig, str(kubeconfig)),
        audit_log=None,
        node=Node.EXISTING,
    )


def _read(source: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(source.read_text())
    except OSError as error:
        raise ClusterError(f"{source}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ClusterError(f"{source}: is not text in UTF-8") from error
    except yaml.MarkedYAMLError as error:  # its own text would quote the line, which may hold a token
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        raise ClusterError(f"{source}: is not YAML: line {line}: {error.problem}") from None
    except yaml.YAMLError:
        raise ClusterError(f"{source}: is not YAML: it holds bytes that no text has") from None
    if not isinstance(content, dict) or not isinstance(content.get("contexts"), list):
        raise ClusterError(f"{source}: is not a kubeconfig: it has no list of contexts")
    return content


def _context(source: Path, content: dict[str, Any], wanted: str | None) -> str:
    there = [str(item.get("name", "")) for item in content["contexts"] if isinstance(item, dict)]
    chosen = wanted or str(content.get("current-context") or "")
    if not chosen:
        raise ClusterError(
            f"{source}: has no current context", hint=f"say which one: --context with one of {', '.join(there)}"
        )
    if chosen not in there:
        raise ClusterError(f"{source}: has no context {chosen!r}", hint=f"it has {', '.join(there) or 'none'}")
    return chosen


def _absolute(content: dict[str, Any], base: Path) -> None:
    for group, inner in (("clusters", "cluster"), ("users", "user")):
        for item in content.get(group) or ():
            fields = item.get(inner) if isinstance(item, dict) else None
            for field in _FILES:
                if isinstance(fields, dict) and fields.get(field):
                    fields[field] = str(base / Path(fields[field]).expanduser())


def _answering(kubeconfig: Path, called: str) -> str:
    """The server's address, once it has said that it is ready; `called` stands in messages for the file."""
    try:
        server = http.endpoint(kubeconfig).server
    except ClusterError as error:
        raise ClusterError(error.message.replace(str(kubeconfig), called), hint=error.hint) from error
    if not start.answers(kubeconfig):
        raise ClusterError(
            f"{called}: {server} does not answer, or not as ready",
            hint="is that cluster running, and is this file and context meant?",
        )
    return server
