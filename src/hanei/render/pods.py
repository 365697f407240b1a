"""The pod template of a workload: containers, environment, mounts, volumes and security contexts.

Called by `workload`. The template still holds placeholders for the names of the slice and of the live ConfigMap.
"""

from __future__ import annotations

from typing import Any

from hanei.app.files import FieldRef, SecretRef, scalar
from hanei.app.workloads import Container, ExistingClaim, HostPath, Port, Probe, Scratch, StatefulSet, Volume, Workload
from hanei.render.canon import Keep, digest
from hanei.render.checks import as_port, check_ports, check_text
from hanei.render.files import Files, check_nesting, check_path, mounts

RESTRICTED_USER = 65532
"""The numeric user of containers that we build ("nonroot" in distroless images)."""


def pod_spec(component: str, workload: Workload, files: Files, service_account: str) -> dict[str, Any]:
    """The `spec` of the pod template (before `compact`). Raises `RenderError`."""
    volumes: dict[str, dict[str, Any]] = {}
    taken: set[str] = set()
    init = [
        _container(component, item, index, "init", workload, files, volumes, taken)
        for index, item in enumerate(workload.init)
    ]
    main = [
        _container(component, item, index, "containers", workload, files, volumes, taken)
        for index, item in enumerate(workload.containers)
    ]
    everything = (*workload.containers, *workload.init)
    restricted = all(item.restricted for item in everything)
    return {
        "automountServiceAccountToken": bool(service_account),
        "serviceAccountName": service_account or None,
        "securityContext": {
            "seccompProfile": {"type": "RuntimeDefault"},
            "runAsNonRoot": True if restricted else None,
            "runAsUser": RESTRICTED_USER if restricted else None,
            "runAsGroup": RESTRICTED_USER if restricted else None,
            "fsGroup": RESTRICTED_USER if restricted else None,
        },
        "nodeSelector": dict(workload.node_selector),
        "terminationGracePeriodSeconds": workload.grace_seconds,
        "initContainers": init,
        "containers": main,
        "volumes": [volumes[name] for name in sorted(volumes)],
    }


def secrets_of(workload: Workload) -> tuple[SecretRef, ...]:
    """Every Secret key that a container names, init containers too, sorted (situation S11)."""
    refs: set[SecretRef] = set()
    for container in (*workload.containers, *workload.init):
        refs.update(value for value in container.env.values() if isinstance(value, SecretRef))
        refs.update(container.secret_files.values())
    return tuple(sorted(refs, key=lambda ref: (ref.name, ref.key, ref.optional)))


def _container(
    component: str, container: Container, index: int, where: str, workload: Workload, files: Files,
    volumes: dict[str, dict[str, Any]], taken: set[str],
) -> dict[str, Any]:  # fmt: skip
    first = where == "containers" and index == 0
    name = container.name or (component if first else f"{component}-{where[:4]}{index}")
    if name in taken:
        raise files.fail(f"{where}[{index}].name", f"two containers are named {name!r}")
    taken.add(name)
    _check(files, container, f"{where}[{index}]")
    mounted = [
        *mounts(files, container, name, first, volumes),
        *_volume_mounts(files, container, volumes),
        *_claim_mounts(files, workload, index, where),
    ]
    check_nesting(files, f"{where}[{index}].volumes", mounted)
    return {
        "name": name,
        "image": container.image,
        "command": list(container.command),
        "args": list(container.args),
        "env": [_env(key, value) for key, value in sorted(container.env.items())],
        "ports": [_port(port) for port in container.ports],
        "volumeMounts": mounted,
        "readinessProbe": _probe(container.ready, container),
        "livenessProbe": _probe(container.live, container),
        "startupProbe": _probe(container.startup, container),
        "resources": {"requests": {key: str(value) for key, value in container.requests.items()}, "limits": {key: str(value) for key, value in container.limits.items()}},
        "securityContext": _security(container),
    }  # fmt: skip


def _check(files: Files, container: Container, where: str) -> None:
    if not container.image or container.image != container.image.strip():
        what = "is empty" if not container.image.strip() else f"{container.image!r} begins or ends with a space"
        raise files.fail(f"{where}.image", what, "name an image; check the setting that it comes from")
    if container.privileged and container.restricted:
        raise files.fail(f"{where}.privileged", "privileged and restricted contradict each other")
    for key, value in container.env.items():
        if not key or not key.isascii() or not key.isprintable() or "=" in key:
            raise files.fail(f"{where}.env[{key!r}]", "is no name of a variable", "use letters, digits and '_'")
        if isinstance(value, str):
            check_text(files.fail, f"{where}.env[{key!r}]", value)
    check_ports(files.fail, f"{where}.ports", container.ports)
    for name in ("ready", "live", "startup"):
        probe: Probe | None = getattr(container, name)
        if probe is not None and not probe.command and not probe.port and not container.ports:
            raise files.fail(
                f"{where}.{name}.port", "there is no port to ask", "give the probe a port, or the container ports=[…]"
            )


def _security(container: Container) -> dict[str, Any]:
    if container.privileged:
        return {"privileged": True}
    if container.restricted:
        return {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": RESTRICTED_USER,
            "capabilities": {"drop": ["ALL"]},
        }
    return {"allowPrivilegeEscalation": False}


def _env(key: str, value: Any) -> dict[str, Any]:
    if isinstance(value, SecretRef):
        return {
            "name": key,
            "valueFrom": {"secretKeyRef": {"name": value.name, "key": value.key, "optional": value.optional or None}},
        }
    if isinstance(value, FieldRef):
        return {"name": key, "valueFrom": {"fieldRef": {"fieldPath": value.path}}}
    # The kubelet would read `$(NAME)` as a reference and `$$` as `$`; a value means what it says.
    return {"name": key, "value": scalar(value).replace("$", "$$")}


def _port(port: int | Port) -> dict[str, Any]:
    if isinstance(port, int):
        return {"containerPort": port, "protocol": "TCP"}
    return {"containerPort": port.number, "name": port.name or None, "protocol": port.protocol}


def _probe(probe: Probe | None, container: Container) -> dict[str, Any] | None:
    if probe is None:
        return None
    port = probe.port or next((as_port(item).number for item in container.ports), 0)
    action: dict[str, Any]
    if probe.command:
        action = {"exec": {"command": list(probe.command)}}
    elif probe.path:
        action = {"httpGet": {"path": probe.path, "port": port}}
    else:
        action = {"tcpSocket": {"port": port}}
    return {
        **action,
        "initialDelaySeconds": probe.delay or None,
        "periodSeconds": probe.period,
        "timeoutSeconds": probe.timeout,
        "failureThreshold": probe.failures,
    }


def _volume_mounts(files: Files, container: Container, volumes: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    result = []
    for path, volume in sorted(container.volumes.items()):
        check_path(files, "volumes", path)
        told = [type(volume).__name__, volume.model_dump(mode="json", exclude_defaults=True)]
        name = f"volume-{digest([path, told], 10)}"
        volumes[name] = {"name": name, **_volume(volume)}
        result.append({"name": name, "mountPath": path})
    return result


def _volume(volume: Volume) -> dict[str, Any]:
    match volume:
        case Scratch():
            body = {
                "sizeLimit": str(volume.size) if volume.size else None,
                "medium": "Memory" if volume.memory else None,
            }
            return {"emptyDir": Keep({key: item for key, item in body.items() if item is not None})}
        case HostPath():
            return {"hostPath": {"path": volume.path, "type": volume.type or None}}
        case ExistingClaim():
            return {"persistentVolumeClaim": {"claimName": volume.name}}


def _claim_mounts(files: Files, workload: Workload, index: int, where: str) -> list[dict[str, Any]]:
    if not isinstance(workload, StatefulSet) or (where == "containers" and index > 0):
        return []
    for number, claim in enumerate(workload.claims):
        check_path(files, f"claims[{number}].mount", claim.mount)
        if claim.name == "slice" or claim.name in [other.name for other in workload.claims[:number]]:
            raise files.fail(f"claims[{number}].name", f"{claim.name!r} is already taken", "give each claim a name=")
    return [{"name": claim.name, "mountPath": claim.mount} for claim in workload.claims]
