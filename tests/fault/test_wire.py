"""Faults on the wire: a life through a proxy that misbehaves ends as a calm one does. `tests/data/faults.tsv`.

Times are scaled down by `hanei run --tune`; the rows speak of production.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.fault.life import Lived, live
from tests.fault.rules import Edit, Match, Rule, Rules, read_rules
from tests.fault.test_crash_matrix import LIVES, difference

if TYPE_CHECKING:
    from pathlib import Path

    from hanei.cluster import Cluster
    from tests.fault.proxy import Proxy

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

QUICK = ("list_page=2", "watch_silence=2", "request_timeout=3", "watch_backoff=1", "backoff_cap=1")
CALM: dict[str, Lived] = {}

FAULTS = {
    "f12_a_request_lost_before_the_server_is_sent_again": "[{match: {write: 1}, lose: before}, {match: {write: 4}, lose: before}, {match: {write: 9}, lose: before}]",
    "f12_an_answer_that_is_lost_makes_nothing_twice": "[{match: {write: 1}, lose: after}, {match: {write: 4}, lose: after}, {match: {write: 9}, lose: after}]",
    "f12_a_record_that_could_not_be_marked_is_not_called_good": "[{match: {verb: patch, resource: controllerrevisions}, times: 9, skip: 1, lose: before}]",
    "f13_conflicts_on_status_writes": "[{match: {verb: patch, subresource: status}, times: 5, status: 409}]",
    "f20_retry_after_is_waited_for": "[{match: {verb: patch}, times: 3, status: 429, headers: {Retry-After: '1'}}]",
    "f21_errors_of_the_server_on_writes": "[{match: {verb: patch}, times: 4, status: 500}, {match: {verb: patch}, skip: 2, times: 4, status: 503}, {match: {verb: patch}, skip: 4, times: 4, status: 504}]",
    "f21_errors_of_the_server_on_lists_and_watches": "[{match: {verb: list}, times: 6, status: 500}, {match: {verb: watch}, times: 9, status: 503}]",
    "f30_own_writes_seen_late": "[{match: {verb: watch, resource: deployments}, stream: [{edit: hold, after: 1, seconds: 3}, {edit: hold, after: 2, seconds: 1}]}]",
    "f33_a_resource_version_that_the_server_does_not_have_yet": "[{match: {verb: list}, times: 4, status: 504, reason: Timeout}, {match: {verb: watch}, times: 2, status: 504, reason: Timeout}]",
    "f36_an_error_410_in_the_stream": "[{match: {verb: watch}, times: 8, stream: [{edit: error, code: 410, after: 1}]}]",
    "f37_410_at_the_start_of_a_watch": "[{match: {verb: watch}, times: 8, status: 410}]",
    "f38_410_between_the_pages_of_a_list": "[{match: {verb: list}, skip: 9, times: 3, status: 410}]",
    "f40_a_watch_that_says_nothing_any_more": "[{match: {verb: watch}, times: 6, stream: [{edit: stall, after: 1, seconds: 30}]}]",
    "f41_a_line_that_is_cut": "[{match: {verb: watch}, times: 8, stream: [{edit: cut, after: 1}]}]",
    "f41_bytes_that_are_no_json": "[{match: {verb: watch}, times: 8, stream: [{edit: garbage, after: 1}]}]",
    "f42_every_event_twice": "[{match: {verb: watch}, times: 0, stream: [{edit: repeat, after: -1}]}]",
    "f50_watches_that_are_closed_again_and_again": "[{match: {verb: watch}, times: 60, stream: [{edit: close, after: 1}]}]",
}  # fmt: skip


def calm(cluster: Cluster, name: str, folder: Path) -> Lived:
    """The life without a fault, lived once in this process."""
    if name not in CALM:
        app, life = LIVES[name]
        CALM[name] = live(cluster, app, life, folder, lambda proxy: None, *QUICK)
    return CALM[name]


@pytest.mark.parametrize(
    ("fault", "name"),
    [(fault, name) for fault in FAULTS for name in LIVES if "record" not in fault or LIVES[name][0].history],
)
def test_a_life_with_a_fault_ends_as_one_without(cluster: Cluster, tmp_path: Path, fault: str, name: str) -> None:
    """O1 to O4, O7 and O8; and the fault did happen."""
    app, life = LIVES[name]
    rules = Rules(read_rules(FAULTS[fault]))
    wanted = calm(cluster, name, tmp_path)

    def rule(proxy: Proxy) -> None:
        proxy.rules = rules

    found = live(cluster, app, life, tmp_path, rule, *QUICK)
    assert rules.used > 0
    assert difference(wanted, found) == ""


def test_f52_the_api_server_is_away_and_comes_back(cluster: Cluster, tmp_path: Path) -> None:
    """Every connection breaks for 8 s in the middle of a life: the process lives, and goes on by itself."""
    app, life = LIVES["ochacafe"]
    wanted = calm(cluster, "ochacafe", tmp_path)

    def rule(proxy: Proxy) -> None:
        proxy.away = (0.3, 8.0)

    began = time.monotonic()
    found = live(cluster, app, life, tmp_path, rule, *QUICK)
    assert time.monotonic() - began > 8
    assert difference(wanted, found) == ""


def test_f32_a_first_list_that_comes_late_deletes_nothing(cluster: Cluster, tmp_path: Path) -> None:
    """The operator starts anew and one kind's list takes 4 s: nothing of what it has not seen is made or deleted."""
    app, life = LIVES["ochacafe"]
    wanted = calm(cluster, "ochacafe", tmp_path)
    slow = Rule(match=Match(verb="list", resource="deployments"), skip=1, delay=4.0)

    def rule(proxy: Proxy) -> None:
        proxy.rules = Rules([Rule(match=Match(write=4), kill="answered"), slow])

    found = live(cluster, app, life, tmp_path, rule)
    assert found.crashes == 1
    assert difference(wanted, found) == ""


@pytest.mark.parametrize("name", LIVES)
def test_f66_what_goes_with_its_resource_is_not_made_again_although_the_news_is_late(
    cluster: Cluster, tmp_path: Path, name: str
) -> None:
    """The collector deletes the children first to our eyes: the resource's own DELETED comes 3 s late."""
    app, life = LIVES[name]
    late = Rule(
        match=Match(verb="watch", resource=app.kind.plural), times=0, stream=(Edit("hold", on="DELETED", seconds=3),)
    )

    def rule(proxy: Proxy) -> None:
        proxy.rules = Rules([late])

    found = live(cluster, app, life, tmp_path, rule)
    again = {
        key: count for key, count in found.done.items() if key[0] == "created" and count > 1 and "HASH" not in key[2]
    }
    assert again == {}
    assert difference(calm(cluster, name, tmp_path), found) == ""
