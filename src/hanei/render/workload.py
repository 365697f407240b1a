"""One component's typed value, as Kubernetes objects.

Called by `render`. The order here is the contract of the component hash: template with placeholders → stamp → hash →
names of the live ConfigMap and the slice → overlay's other fields → objects with owner, labels and digests.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hanei import kinds
from hanei.app import names
from hanei.app.workloads import Deployment, ExistingClaim, Ingress, Port, Right, Service, StatefulSet, Workload
from hanei.errors import RenderError
from hanei.render import labels
from hanei.render.canon import compact, digest, merge
from hanei.render.files import LIVE_NAME, SLICE_NAME, Files, data_of
from hanei.render.model import Desired, Facets, RenderedComponent, Role
from hanei.render.pods import pod_spec, secrets_of

if TYPE_CHECKING:
    from hanei.app.application import App
    from hanei.app.own import Own
    from hanei.kinds import Kind

IMMUTABLE_OF_STATEFUL_SET = ("serviceName", "volumeClaimTemplates", "podManagementPolicy", "selector")
Stamp = Callable[[Callable[[str], str]], str]
"""Chooses a component's secret stamp, given the function from a stamp to the hash that it would lead to."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a component is rendered: its app, resource and name."""

    app: App[Any]
    own: Own
    component: str

    def fail(self, field: str, message: str, hint: str = "") -> RenderError:
        """A `RenderError` that names this component."""
        return RenderError(
            f"component {self.component}: {field}: {message}", component=self.component, field=field, hint=hint
        )

    @property
    def labels(self) -> dict[str, str]:
        """The labels of every object of the component."""
        return labels.common(self.app.kind, self.own.name, self.component)

    def desired(
        self,
        kind: Kind,
        name: str,
        role: Role,
        body: Mapping[str, Any],
        extra_labels: Mapping[str, str] | None = None,
        extra_annotations: Mapping[str, str] | None = None,
    ) -> Desired:
        """`body` with everything that each of our objects has: identity, labels, owner."""
        metadata = dict(body.get("metadata", {}))
        annotations = {**metadata.get("annotations", {}), **(extra_annotations or {})}
        if names.subdomain(self.own.name) != self.own.name or name != names.child(self.own.name, self.component):
            annotations[labels.RESOURCE] = self.own.name
        metadata |= {
            "name": name,
            "namespace": self.own.namespace,
            "labels": {**metadata.get("labels", {}), **self.labels, labels.ROLE: role.value, **(extra_labels or {})},
            "annotations": annotations,
            "ownerReferences": [self._owner()],
        }
        rest = {key: item for key, item in body.items() if key != "metadata"}
        wanted = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            **rest,
            "metadata": {key: item for key, item in metadata.items() if item},
        }
        return Desired(kind, name, role, self.component, wanted, digest(wanted))

    def _owner(self) -> dict[str, Any]:
        kind = self.app.kind
        return {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "name": self.own.name,
            "uid": self.own.uid,
            "controller": True,
        }


def build(place: Place, value: Workload, stamp: Stamp) -> RenderedComponent:
    """All objects of one component. Raises `RenderError`; never changes `value`."""
    _check(place, value)
    own_name = names.child(place.own.name, place.component)
    name = names.subdomain(value.name) if value.name else own_name
    account = own_name if value.rights else ""
    files = Files(place.component)
    template, settings_hash, chosen, slice_hash = _template(place, value, name, files, account, stamp)
    slice_name, live_name = f"{name}-{slice_hash[:16]}", f"{name}-live-{settings_hash[:16]}"
    template["spec"] = _named(template["spec"], {SLICE_NAME: slice_name, LIVE_NAME: live_name})
    objects = [
        *_carriers(place, files, slice_name, live_name, slice_hash, settings_hash),
        *_access(place, value, account),
        *_network(place, value, own_name),
    ]
    objects += [_extra(place, index, body) for index, body in enumerate(value.extra)]
    workload = _workload(place, value, name, own_name, template)
    facets = _facets(value, workload, objects, settings_hash)
    return RenderedComponent(
        place.component, (*sorted(objects, key=lambda item: list(Role).index(item.role)), workload), workload, facets, chosen,
        secrets_of(value), (), labels.selector(place.app.kind, name), slice_hash,
    )  # fmt: skip


def _template(
    place: Place, value: Workload, name: str, files: Files, account: str, stamp: Stamp
) -> tuple[dict[str, Any], str, str, str]:
    """The pod template (placeholders still in), its hash, the secret stamp, and the hash of the slice's files."""
    spec = pod_spec(place.component, value, files, account)
    files.check_size()
    slice_hash = digest(data_of(files.versioned)) if files.versioned else ""
    base: dict[str, Any] = {
        "metadata": {"labels": {**value.labels, **place.labels, **labels.selector(place.app.kind, name), labels.SLICE: slice_hash[:16] or None}, "annotations": dict(value.annotations)},
        "spec": spec,
    }  # fmt: skip
    over = _overlay_of_template(place, value)
    # What is not rendered into the template but decides what its pods see: the slice's content and the live files' layout.
    base = merge(compact(base), over) if over else compact(base)

    def hash_with(text: str) -> str:
        return digest([_stamped(base, text), slice_hash, sorted(files.live)])

    chosen = stamp(hash_with)
    settings_hash = hash_with(chosen)
    template = _stamped(base, chosen)
    template["metadata"]["labels"] = {**template["metadata"]["labels"], labels.HASH: settings_hash}
    return template, settings_hash, chosen, slice_hash


def _stamped(template: dict[str, Any], text: str) -> dict[str, Any]:
    result = {"metadata": dict(template["metadata"]), "spec": template["spec"]}
    if text:
        result["metadata"]["annotations"] = {**result["metadata"].get("annotations", {}), labels.SECRETS: text}
    return result


def _named(value: Any, real: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _named(item, real) for key, item in value.items()}
    if isinstance(value, list):
        return [_named(item, real) for item in value]
    return real.get(value, value) if isinstance(value, str) else value


def _carriers(
    place: Place, files: Files, slice_name: str, live_name: str, slice_hash: str, settings_hash: str
) -> list[Desired]:
    result = []
    if files.versioned:
        body = compact({**data_of(files.versioned), "immutable": True})
        result.append(place.desired(kinds.CONFIG_MAP, slice_name, Role.SLICE, body, {labels.SLICE: slice_hash[:16]}))
    if files.live:
        result.append(
            place.desired(
                kinds.CONFIG_MAP, live_name, Role.LIVE, compact(data_of(files.live)), {labels.HASH: settings_hash}
            )
        )
    return result


def _access(place: Place, value: Workload, account: str) -> list[Desired]:
    if not account:
        return []
    rules = [_rule(right) for right in value.rights]
    subject = {"kind": "ServiceAccount", "name": account, "namespace": place.own.namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account}
    return [
        place.desired(kinds.SERVICE_ACCOUNT, account, Role.ACCESS, {}),
        place.desired(kinds.ROLE, account, Role.ACCESS, compact({"rules": rules})),
        place.desired(kinds.ROLE_BINDING, account, Role.ACCESS, {"roleRef": role, "subjects": [subject]}),
    ]


def _rule(right: Right) -> dict[str, Any]:
    return {
        "apiGroups": [right.group],
        "resources": list(right.resources),
        "verbs": list(right.verbs),
        "resourceNames": list(right.names),
    }


def _network(place: Place, value: Workload, own_name: str) -> list[Desired]:
    selector = labels.selector(place.app.kind, names.subdomain(value.name) if value.name else own_name)
    services = list(value.services)
    if value.service:
        services.insert(0, Service(ports=value.service))
    elif isinstance(value, StatefulSet) and _container_ports(value) and all(item.name for item in services):
        services.insert(
            0, Service(ports=_container_ports(value), headless=True)
        )  # a StatefulSet needs one that governs it
    result = []
    for service in services:
        name = names.label(service.name) if service.name else own_name
        body = {
            "spec": {
                "type": service.type,
                "clusterIP": "None" if service.headless else None,
                "selector": selector,
                "ports": [_service_port(port, many=len(service.ports) > 1) for port in service.ports],
            }
        }
        result.append(place.desired(kinds.SERVICE, name, Role.OBJECT, compact(body)))
    for index, ingress in enumerate(value.ingress):
        name = own_name if index == 0 else f"{own_name}-{index}"
        result.append(place.desired(kinds.INGRESS, name, Role.OBJECT, compact(_ingress(ingress, own_name))))
    return result


def _container_ports(value: Workload) -> tuple[int | Port, ...]:
    return tuple(port for container in value.containers for port in container.ports)


def _service_port(port: int | Port, *, many: bool) -> dict[str, Any]:
    known = port if isinstance(port, Port) else Port(number=port)
    return {
        "name": known.name or (f"p{known.number}" if many else None),
        "port": known.number,
        "targetPort": known.number,
        "protocol": known.protocol,
    }


def _ingress(ingress: Ingress, service: str) -> dict[str, Any]:
    backend = {"service": {"name": service, "port": {"number": ingress.port}}}
    rule = {
        "host": ingress.host or None,
        "http": {"paths": [{"path": ingress.path, "pathType": ingress.path_type, "backend": backend}]},
    }
    tls = (
        [{"secretName": ingress.tls_secret, "hosts": [ingress.host] if ingress.host else None}]
        if ingress.tls_secret
        else None
    )
    return {
        "metadata": {"annotations": dict(ingress.annotations)},
        "spec": {"ingressClassName": ingress.class_name or None, "rules": [rule], "tls": tls},
    }


def _workload(place: Place, value: Workload, name: str, own_name: str, template: dict[str, Any]) -> Desired:
    selector = {"matchLabels": labels.selector(place.app.kind, name)}
    spec: dict[str, Any] = {"replicas": value.replicas, "selector": selector}
    kind = kinds.DEPLOYMENT
    if isinstance(value, StatefulSet):
        kind = kinds.STATEFUL_SET
        spec |= {
            "serviceName": own_name,
            "podManagementPolicy": "Parallel" if value.parallel else "OrderedReady",
            "updateStrategy": {"type": value.update},
            "volumeClaimTemplates": [_claim(claim) for claim in value.claims],
        }
    elif isinstance(value, Deployment):
        rolling = {"maxSurge": _int_or_text(value.max_surge), "maxUnavailable": _int_or_text(value.max_unavailable)}
        spec["strategy"] = {
            "type": value.strategy,
            "rollingUpdate": rolling if value.strategy == "RollingUpdate" else None,
        }
    body = merge({"spec": compact(spec)}, _overlay_of_workload(place, value))
    body["spec"]["template"] = template  # the overlay's share of the template is in it already
    annotations = {labels.IMMUTABLE: _immutable(body)} if isinstance(value, StatefulSet) else None
    return place.desired(kind, name, Role.WORKLOAD, body, extra_annotations=annotations)


def _claim(claim: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": claim.name},
        "spec": {
            "accessModes": [claim.access],
            "storageClassName": claim.storage_class or None,
            "resources": {"requests": {"storage": str(claim.size)}},
        },
    }


def _int_or_text(value: Any) -> int | str | None:
    return None if value is None else int(value) if str(value).isdigit() else str(value)


def _immutable(body: Mapping[str, Any]) -> str:
    return digest({key: body["spec"].get(key) for key in IMMUTABLE_OF_STATEFUL_SET}, 16)


def _facets(value: Workload, workload: Desired, objects: list[Desired], settings_hash: str) -> Facets:
    spec = dict(workload.body["spec"])
    replicas = spec.pop("replicas", None)
    spec.pop("template")
    strategy = (
        value.strategy if isinstance(value, Deployment) else value.update if isinstance(value, StatefulSet) else ""
    )
    others = tuple(
        sorted(
            (f"{item.kind}/{item.name}", item.digest) for item in objects if item.role not in (Role.SLICE, Role.LIVE)
        )
    )
    live = digest([item.body.get("data") or item.body.get("binaryData") for item in objects if item.role is Role.LIVE])
    metadata = {
        key: item for key, item in workload.body["metadata"].items() if key in ("labels", "annotations", "name")
    }
    return Facets(
        template=settings_hash, replicas=replicas, live=live, objects=others, rest=digest([workload.kind.kind, metadata, spec]),
        immutable=workload.body["metadata"].get("annotations", {}).get(labels.IMMUTABLE, ""), strategy=strategy,
    )  # fmt: skip


def _extra(place: Place, index: int, body: Mapping[str, Any]) -> Desired:
    where = f"extra[{index}]"
    api_version, kind_name = body.get("apiVersion"), body.get("kind")
    name = body.get("metadata", {}).get("name")
    if not (isinstance(api_version, str) and isinstance(kind_name, str) and isinstance(name, str) and name):
        raise place.fail(where, "needs apiVersion, kind and metadata.name")
    kind = next(
        (item for item in place.app.makes if (item.api_version, item.kind) == (api_version, kind_name)),
        kinds.known(api_version, kind_name),
    )
    if kind is None:
        raise place.fail(
            where,
            f"{api_version} {kind_name} is no kind that is known",
            f"name it in App(makes=(Kind(group, version, {kind_name!r}, plural),))",
        )
    if not kind.namespaced:
        raise place.fail(where, f"{kind_name} is cluster-wide; objects stay in the resource's namespace")
    if body["metadata"].get("namespace", place.own.namespace) != place.own.namespace:
        raise place.fail(
            f"{where}.metadata.namespace",
            f"found {body['metadata']['namespace']!r}: objects stay in the resource's namespace",
        )
    return place.desired(kind, name, Role.OBJECT, copy.deepcopy(dict(body)))


def _check(place: Place, value: Workload) -> None:
    """Refuse what cannot work before anything is built."""
    if isinstance(value, Deployment) and value.strategy == "RollingUpdate":
        for container in value.containers:
            for path, volume in container.volumes.items():
                if isinstance(volume, ExistingClaim) and volume.access in ("ReadWriteOnce", "ReadWriteOncePod"):
                    raise place.fail(
                        f"volumes[{path!r}]",
                        f"a {volume.access} claim cannot be held by old and new pods at once",
                        'use strategy="Recreate" or a StatefulSet with claims',
                    )
    for index, ingress in enumerate(value.ingress):
        ports = [
            port if isinstance(port, int) else port.number
            for service in (*value.services, Service(ports=value.service or (1,)))
            for port in service.ports
        ]
        if ingress.port not in ports:
            raise place.fail(
                f"ingress[{index}].port",
                f"{ingress.port} is no port of the component's Service",
                "ask for it with service=[…]",
            )
    labels_given = {**value.labels, **value.annotations}
    for key in labels_given:
        if labels.PREFIX in key or key in (labels.MANAGED_BY, labels.INSTANCE, labels.COMPONENT):
            raise place.fail(f"labels[{key!r}]", "belongs to Hanei")
    _check_overlay(place, value.overlay)


def _check_overlay(place: Place, overlay: Mapping[str, Any]) -> None:
    metadata, spec = overlay.get("metadata", {}), overlay.get("spec", {})
    for field in ("name", "namespace", "ownerReferences", "uid", "generateName"):
        if field in metadata:
            raise place.fail(f"overlay.metadata.{field}", "may not be overlaid")
    if "selector" in spec:
        raise place.fail("overlay.spec.selector", "may not be overlaid: it is frozen for the life of the workload")
    template = spec.get("template", {}).get("metadata", {}) if isinstance(spec.get("template", {}), Mapping) else {}
    for place_name, mapping in (("metadata", metadata), ("spec.template.metadata", template)):
        for what in ("labels", "annotations"):
            for key in mapping.get(what, {}):
                if key.startswith(labels.PREFIX):
                    raise place.fail(f"overlay.{place_name}.{what}[{key!r}]", "belongs to Hanei")


def _overlay_of_template(place: Place, value: Workload) -> dict[str, Any]:
    return copy.deepcopy(dict(value.overlay.get("spec", {}).get("template", {})))


def _overlay_of_workload(place: Place, value: Workload) -> dict[str, Any]:
    over = copy.deepcopy(dict(value.overlay))
    if "spec" in over:
        over["spec"].pop("template", None)
    return over
