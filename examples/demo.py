"""The main job, live: settings in, exactly the right pods restarted. Run by `make demo`.

Everything goes the way a user goes: `hanei` and `kubectl` commands against a local cluster with a real API server and
real controllers. Only the nodes are simulated (KWOK): pods become Ready, nothing runs in them. Each step prints what is
expected and what was seen, pods told apart by uid, and the exit code is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hanei.cluster import Cluster, down, find, up
from hanei.errors import HaneiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

NAMESPACE = "demo"
APPS = ("--app", "autolock.app:app", "--app", "ochacafe.app:app")
LOCK, CAFE = "autolock-sample", "ochacafe-sample"
COMPONENTS = {"main": LOCK, "webapp": LOCK, "webhook": LOCK, "mqtt": LOCK, "authdb": LOCK, "cafe": CAFE}
PATIENCE = 120.0
BIN = Path(sys.executable).parent


class Failed(Exception):
    """The demo cannot go on."""


@dataclass(frozen=True)
class Seen:
    """Pods by uid, and generations of workloads, of every component."""

    pods: dict[str, frozenset[str]]
    generations: dict[str, int]


@dataclass
class Demo:
    """The stage: a cluster, a user, an operator."""

    cluster: Cluster
    folder: Path
    operator: subprocess.Popen[bytes] | None = None
    differences: list[str] = field(default_factory=list)

    def run(
        self, *command: str, stdin: str | None = None, show: bool = True, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """One command of a user, printed as it would be typed."""
        if show:
            print(dim(f"$ {' '.join(quoted(part) for part in command)}"))
        environment = {**os.environ, "KUBECONFIG": str(self.cluster.kubeconfig), "PATH": f"{BIN}:{os.environ['PATH']}"}
        done = subprocess.run(command, input=stdin, text=True, capture_output=True, env=environment, check=False)
        if check and done.returncode != 0:
            raise Failed(f"{command[0]} failed ({done.returncode}):\n{done.stdout}{done.stderr}")
        return done

    def kubectl(self, *arguments: str, stdin: str | None = None, show: bool = True, check: bool = True) -> str:
        """`kubectl` in the demo's namespace."""
        done = self.run("kubectl", "-n", NAMESPACE, *arguments, stdin=stdin, show=show, check=check)
        return done.stdout + (done.stderr if not check else "")

    def get(self, kind: str, selector: str = "") -> list[dict[str, Any]]:
        """Objects, not printed."""
        text = self.kubectl("get", kind, "-o", "json", *(("-l", selector) if selector else ()), show=False)
        items: list[dict[str, Any]] = json.loads(text)["items"]
        return items

    def seen(self) -> Seen:
        """What is there now."""
        selector = "app.kubernetes.io/managed-by=hanei"
        pods: dict[str, set[str]] = {name: set() for name in COMPONENTS}
        for pod in self.get("pods", selector):
            if "deletionTimestamp" not in pod["metadata"]:
                pods[component_of(pod)].add(pod["metadata"]["uid"])
        workloads = self.get("deployments,statefulsets", selector)
        return Seen(
            {name: frozenset(found) for name, found in pods.items()},
            {component_of(item): item["metadata"]["generation"] for item in workloads},
        )

    def ready(self) -> None:
        """Wait until both resources say Ready for their newest generation."""
        self.until("both resources Ready", lambda: all(is_ready(item) for item in self.get("autolocks,ochacaves")))

    def until(self, what: str, check: Callable[[], object]) -> None:
        """Wait, and show on a terminal that we do."""
        limit, started = time.monotonic() + PATIENCE, time.monotonic()
        while not check():
            if time.monotonic() > limit:
                raise Failed(f"waited {PATIENCE:.0f} s for {what}, in vain")
            if sys.stdout.isatty():
                print(f"\r  waiting for {what}: {time.monotonic() - started:.0f} s ", end="", flush=True)
            time.sleep(0.2)
        if sys.stdout.isatty():
            print("\r" + " " * 70 + "\r", end="", flush=True)

    def start_operator(self) -> None:
        """`hanei run`, with the account and exactly the rights that `hanei rbac` prints."""
        command = [
            str(BIN / "hanei"),
            "run",
            *APPS,
            "--http-port",
            "0",
            "--kubeconfig",
            str(self.folder / "operator.kubeconfig"),
        ]
        print(dim(f"$ hanei {' '.join(command[1:])} &"))
        with (self.folder / "operator.log").open("ab") as log:
            self.operator = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, env={**os.environ, "HANEI_LOG": "info,json"}
            )

    def kill_operator(self) -> None:
        """SIGKILL: no goodbye."""
        if self.operator is not None:
            self.operator.send_signal(signal.SIGKILL)
            self.operator.wait()
            self.operator = None

    def verdict(self, expected: dict[str, str], before: Seen) -> None:
        """Compare what was expected of each component with what happened to its pods, by uid."""
        after = self.seen()
        rows = [("COMPONENT", "EXPECTED", "SEEN", "")]
        for name in COMPONENTS:
            wanted, found = expected.get(name, "nothing"), happened(name, before, after)
            good = found.split(":")[0] == wanted
            rows.append((name, wanted, found, "ok" if good else "DIFFERS"))
            if not good:
                self.differences.append(f"{name}: expected {wanted}, seen {found}")
        print_table(rows)

    def same(self, what: str, expected: str, found: str) -> None:
        """One more expectation, as a line."""
        good = expected == found
        print(f"  {what}: expected {expected}, seen {found}  {'ok' if good else 'DIFFERS'}")
        if not good:
            self.differences.append(f"{what}: expected {expected}, seen {found}")


def happened(name: str, before: Seen, after: Seen) -> str:
    """What happened to a component, told from uids and generations alone."""
    old, new = before.pods[name], after.pods[name]
    kept = old & new
    if old != new and not kept:
        return f"restart: {len(new)} new pods for {len(old)}"
    if kept != old and kept != new:
        return f"mixed: {len(kept)} of {len(old)} pods kept"
    if old != new:
        return f"scale: {len(old)} → {len(new)} pods, {len(kept)} kept"
    if before.generations.get(name) != after.generations.get(name):
        return "object: its workload was written, no pod moved"
    return "nothing"


def change(demo: Demo, title: str, path: str, value: str, expected: dict[str, str]) -> None:
    """One setting changed as a user would: look at the plan, save, look at the pods."""
    heading(title)
    before = demo.seen()
    print(demo.run("hanei", "plan", LOCK, "--set", f"{path}={value}", "-n", NAMESPACE, *APPS[:2]).stdout, end="")
    spec: Any = int(value) if value.isdigit() else value
    for part in reversed(path.split(".")):
        spec = {part: spec}
    print(demo.kubectl("patch", "autolock", LOCK, "--type=merge", "-p", json.dumps({"spec": spec})), end="")
    demo.ready()
    demo.verdict(expected, before)


def play(demo: Demo) -> None:
    """The whole demo."""
    heading("Set up: CRDs, rights, operator, and the two published samples")
    demo.run("kubectl", "create", "namespace", NAMESPACE)
    demo.run("kubectl", "apply", "-f", "-", stdin=demo.run("hanei", "crd", *APPS).stdout)
    demo.run("kubectl", "apply", "-f", "-", stdin=demo.run("hanei", "rbac", "-n", NAMESPACE, *APPS).stdout)
    operator_kubeconfig(demo)
    secret = [
        f"--from-literal=MARIADB_{key}={value}"
        for key, value in (("ROOT_PASSWORD", "root"), ("DATABASE", "autolock"), ("USER", "lock"), ("PASSWORD", "lock"))
    ]
    demo.kubectl("create", "secret", "generic", "autolock-auth-db-secret", *secret)
    demo.start_operator()
    for package in ("autolock", "ochacafe"):
        with resources.as_file(resources.files(package) / "sample.yaml") as sample:
            print(demo.kubectl("apply", "-f", str(sample)), end="")
    demo.until(
        "the resources' status",
        lambda: len([item for item in demo.get("autolocks,ochacaves") if item.get("status")]) == 2,
    )
    demo.ready()
    print(demo.kubectl("get", "autolocks,ochacaves"), end="")
    print(demo.run("hanei", "get", "-n", NAMESPACE, *APPS).stdout, end="")

    change(demo, "1. timeout_seq: only the lock uses it", "main.config.main.timeout_seq", "60", {"main": "restart"})
    change(
        demo,
        "2. An MQTT topic: the lock and the webhook use it",
        "main.config.mqtt.subscribe.open.topic",
        "/door/unlock",
        {"main": "restart", "webhook": "restart"},
    )
    change(demo, "3. webapp.replicas: pods are added, none restarts", "webapp.replicas", "4", {"webapp": "scale"})
    refused(demo)
    deleted(demo)
    killed(demo)


def refused(demo: Demo) -> None:
    """A wrong value never gets in, and the answer names the field."""
    heading("4. A wrong rotate_direction is refused, and the field is named")
    before = demo.seen()
    answer = demo.kubectl(
        "patch",
        "autolock",
        LOCK,
        "--type=merge",
        "-p",
        '{"spec":{"main":{"config":{"main":{"rotate_direction":"up"}}}}}',
        check=False,
    )
    print(answer, end="")
    named = "spec.main.config.main.rotate_direction" in answer and '"left", "right"' in answer
    demo.same(
        "the answer",
        "refused, field and choices named",
        "refused, field and choices named" if named else answer.strip(),
    )
    demo.verdict({}, before)


def deleted(demo: Demo) -> None:
    """What is deleted by hand comes back."""
    heading("5. A deleted Deployment comes back")
    before, name = demo.seen(), f"{LOCK}-webhook"
    old = demo.kubectl("get", "deployment", name, "-o", "jsonpath={.metadata.uid}", show=False)
    print(demo.kubectl("delete", "deployment", name), end="")

    def back() -> bool:
        uid = demo.kubectl("get", "deployment", name, "-o", "jsonpath={.metadata.uid}", show=False, check=False)
        return bool(uid) and uid != old and "NotFound" not in uid

    demo.until(f"a new {name}", back)
    demo.until("its old pods to go", lambda: not before.pods["webhook"] & demo.seen().pods["webhook"])
    demo.ready()
    demo.verdict({"webhook": "restart"}, before)


def killed(demo: Demo) -> None:
    """The operator holds no state that matters: after kill -9 and a new start nothing moves."""
    heading("6. The operator is killed (SIGKILL) and started again: nothing moves")
    before = demo.seen()
    versions = {
        item["metadata"]["name"]: item["metadata"]["resourceVersion"]
        for item in demo.get("autolocks,ochacaves,deployments,statefulsets,configmaps")
    }
    demo.kill_operator()
    demo.start_operator()
    lease = "hanei-autolocks-ochacaves"
    holder = demo.kubectl("get", "lease", lease, "-o", "jsonpath={.spec.holderIdentity}", show=False)
    demo.until(
        "the new process to lead",
        lambda: (
            demo.kubectl("get", "lease", lease, "-o", "jsonpath={.spec.holderIdentity}", show=False) not in ("", holder)
        ),
    )
    time.sleep(3)
    now = {
        item["metadata"]["name"]: item["metadata"]["resourceVersion"]
        for item in demo.get("autolocks,ochacaves,deployments,statefulsets,configmaps")
    }
    written = sorted(name for name in now if versions.get(name) != now[name])
    demo.same("objects written", "none", ", ".join(written) or "none")
    demo.verdict({}, before)


def operator_kubeconfig(demo: Demo) -> None:
    """A kubeconfig that logs in as the operator's service account."""
    token = demo.kubectl("create", "token", "hanei-operator", "--duration=2h").strip()
    config = json.loads(demo.run("kubectl", "config", "view", "--raw", "-o", "json", show=False).stdout)
    config["users"] = [{"name": "operator", "user": {"token": token}}]
    config["contexts"] = [
        {
            "name": "operator",
            "context": {"cluster": config["clusters"][0]["name"], "user": "operator", "namespace": NAMESPACE},
        }
    ]
    config["current-context"] = "operator"
    target = demo.folder / "operator.kubeconfig"
    target.touch(mode=0o600)
    target.write_text(json.dumps(config))


def component_of(item: dict[str, Any]) -> str:
    return str(item["metadata"]["labels"]["app.kubernetes.io/component"])


def is_ready(resource: dict[str, Any]) -> bool:
    status = resource.get("status", {})
    true = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", ()))
    return true and status.get("observedGeneration") == resource["metadata"]["generation"]


def heading(text: str) -> None:
    print(f"\n{bold(text)}")


def bold(text: str) -> str:
    return f"\033[1m{text}\033[0m" if sys.stdout.isatty() else f"== {text} =="


def dim(text: str) -> str:
    return f"\033[2m{text}\033[0m" if sys.stdout.isatty() else text


def quoted(part: str) -> str:
    plain = Path(part).name if part.startswith("/") else part
    return f"'{plain}'" if any(char in plain for char in ' {}"') else plain


def print_table(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  " + "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def end_kept() -> None:
    """End what an earlier `KEEP=1` left: its operator, by pid and only if it is one, and its cluster."""
    kept = find("demo")
    if kept is not None:
        note = kept.folder / "demo-operator"
        pid = int(note.read_text()) if note.exists() else 0
        command = Path(f"/proc/{pid}/cmdline")
        if pid and command.exists() and b"hanei-demo-" in command.read_bytes():
            os.kill(pid, signal.SIGTERM)
    down("demo")


@contextmanager
def stage(keep: bool) -> Iterator[Demo]:
    """The cluster while the demo plays; `keep` leaves it and the operator running."""
    down("demo")
    print(
        "Starting a local cluster (the first time its binaries are downloaded or built, which takes minutes) …",
        flush=True,
    )
    if subprocess.run([str(BIN / "hanei"), "cluster", "up", "demo"], check=False).returncode != 0:
        raise Failed("the cluster did not start")
    folder = Path(tempfile.mkdtemp(prefix="hanei-demo-"))
    demo = Demo(up("demo"), folder)
    try:
        yield demo
    except BaseException:
        keep = False
        log = folder / "operator.log"
        if log.exists():
            print(f"\nThe operator's last words:\n{log.read_text()[-3000:]}", file=sys.stderr)
        raise
    finally:
        if keep:
            print(
                f"\nLeft running (make demo, or: hanei cluster down demo, ends it).\n  export KUBECONFIG={demo.cluster.kubeconfig}\n  kubectl -n {NAMESPACE} get autolocks,pods"
            )
            if demo.operator is not None:
                (demo.cluster.folder / "demo-operator").write_text(str(demo.operator.pid))
                print(
                    f"To end it: kill {demo.operator.pid}; hanei cluster down demo   (the operator's log: {folder / 'operator.log'})"
                )
        else:
            demo.kill_operator()
            down("demo")
            shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """Play, and tell how it ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the cluster and the operator running")
    started = time.monotonic()
    try:
        with stage(parser.parse_args().keep) as demo:
            print(
                "Real API server and controllers; the nodes, and so all pods, are simulated: they become Ready, nothing runs in them."
            )
            play(demo)
            differences = demo.differences
    except (Failed, HaneiError) as error:
        print(f"\nThe demo failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted; the cluster is stopped.", file=sys.stderr)
        return 130
    print(
        f"\n{bold('Everything was as expected.' if not differences else 'Something differs:')} ({time.monotonic() - started:.0f} s)"
    )
    for difference in differences:
        print(f"  {difference}")
    return 1 if differences else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
