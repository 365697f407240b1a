"""The rule file of the proxy: which requests, and what is done to them. Pure; read from YAML.

::

    - match: {verb: patch, resource: deployments, write: 4}   # the 4th numbered write, if it is one of these
      lose: after                                             # it is done, its answer never comes
    - match: {verb: watch, resource: pods}
      times: 3
      stream: [{after: 2, edit: error, code: 410}]

A rule is used `times` times (once unless given, 0 for ever) after `skip` matches; the first that matches is taken.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

import msgspec
import yaml

if TYPE_CHECKING:
    from tests.fault.call import Call

Moment = Literal["before", "after", "answered"]
"""Of a write: before it is forwarded, after it was done with the answer lost, or when the answer has been given."""


class Match(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Patterns (`*`, `?`) of a request; empty fits all. `write` is the number of a counted write."""

    verb: str = "*"
    resource: str = "*"
    group: str = "*"
    namespace: str = "*"
    name: str = "*"
    subresource: str = "*"
    write: int = 0


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One change of a watch, at the event with this number (from 0), or at each (-1).

    `hold` keeps events back for `seconds`, `repeat` sends the event twice, `cut` sends half a line and breaks the
    connection, `garbage` sends bytes that are no JSON, `error` sends an ERROR event of `code`, `stall` says nothing for
    `seconds` and drops what came, `close` ends the watch.
    """

    edit: Literal["hold", "repeat", "cut", "garbage", "error", "stall", "close"]
    after: int = 0
    on: str = ""
    """Instead of a number: each event of this type, such as DELETED."""
    seconds: float = 0.0
    code: int = 410


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is done: a wait, an answer of ours, a lost connection, an older list, an edited watch, an operator's end."""

    match: Match = Match()
    times: int = 1
    skip: int = 0
    delay: float = 0.0
    status: int = 0
    reason: str = ""
    headers: dict[str, str] = {}
    lose: Moment | None = None
    kill: Moment | None = None
    freeze: Moment | None = None
    seconds: float = 0.0
    """How long the operator stays frozen."""
    old: str = ""
    """A resourceVersion: lists are answered as of then."""
    stream: tuple[Edit, ...] = ()


def read_rules(text: str) -> list[Rule]:
    """Rules of a file; msgspec.ValidationError names the place of a mistake."""
    return msgspec.convert(yaml.safe_load(text) or [], list[Rule])


class Rules:
    """The rules in force, with how often each has matched."""

    def __init__(self, rules: list[Rule] | None = None) -> None:
        self._rules = [(rule, [0]) for rule in rules or ()]

    @property
    def used(self) -> int:
        """How many requests have matched."""
        return sum(count[0] for _, count in self._rules)

    def take(self, call: Call, write: int) -> Rule | None:
        """The rule for this request, counted as used; `write` is its number among the counted writes, 0 for others."""
        for rule, count in self._rules:
            if not fits(rule.match, call, write):
                continue
            count[0] += 1
            if count[0] > rule.skip and (rule.times == 0 or count[0] <= rule.skip + rule.times):
                return rule
        return None


def fits(match: Match, call: Call, write: int) -> bool:
    """Whether a request is meant."""
    fields = ("verb", "resource", "group", "namespace", "name", "subresource")
    return match.write in (0, write) and all(
        fnmatchcase(getattr(call, field), getattr(match, field)) for field in fields
    )
