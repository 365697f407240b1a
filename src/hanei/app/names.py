"""Names of the objects that Hanei makes: derived from the resource, cut with a hash, never ambiguous.

A workload's name is cut at 52 characters: the StatefulSet controller puts `<name>-<10 characters>` into a label of at
most 63 (situation S47). A name that is no plain DNS label (dots, a leading digit, too long) is rewritten and ends in a
hash of the whole, so that two different names never meet.
"""

from __future__ import annotations

import hashlib
import re

LIMIT = 52
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def digest(text: str, length: int = 10) -> str:
    """The first `length` hex digits of the SHA-256 of `text`."""
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def label(text: str) -> str:
    """`text` as a DNS label of at most 52 characters that starts with a letter."""
    if len(text) <= LIMIT and _LABEL.fullmatch(text):
        return text
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "x"
    if not plain[0].isalpha():
        plain = f"x{plain}"
    return f"{plain[: LIMIT - 11].rstrip('-')}-{digest(text)}"


def subdomain(text: str) -> str:
    """`text` as a DNS subdomain of at most 52 characters: what a Deployment that nobody resolves may be called."""
    if len(text) <= LIMIT and _SUBDOMAIN.fullmatch(text):
        return text
    return label(text)


def child(resource: str, component: str) -> str:
    """The name of a component's objects: `<resource>-<component>`."""
    return label(f"{resource}-{component}")
