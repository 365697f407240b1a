"""One component's typed value, as Kubernetes objects.

Called by `render`. The order here is the contract of the component hash: template with placeholders → stamp → hash →
names of the live ConfigMap and the slice → overlay's other fields → objects with owner, labels and digests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hanei import kinds
from hanei.app import names
from hanei.app.workloads import Deployment, Ingress, Port, Right, Service, StatefulSet, Workload
from hanei.errors import RenderError
from hanei.render import labels
from hanei.render.canon import compact, digest, merge
from hanei.render.checks import as_port, check_extra, check_overlay, check_ports, check_workload, json_value
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
        known = self.app.components.get(self.component)
        where = f"component {self.component} ({known.module})" if known else f"component {self.component}"
        return RenderError(f"{where}: {field}: {message}", component=self.component, field=field, hint=hint)

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
    check_workload(place.fail, value)
    value = value.model_copy(update={"overlay": json_value(place.fail, "overlay", value.overlay)})
    check_overlay(place.fail, value.overlay)
    own_name = names.child(place.own.name, place.component)
    name = _name(value) or own_name
    account = own_name if value.rights else ""
    files = Files(place.fail)
    template, settings_hash, chosen, slice_hash = _template(place, value, name, files, account, stamp)
    slice_name, live_name = f"{name}-{slice_hash[:16]}", f"{name}-live-{settings_hash[:16]}"
    if "volumes" in template["spec"]:
        real = {SLICE_NAME: slice_name, LIVE_NAME: live_name}
        template["spec"] = {**template["spec"], "volumes": _named(template["spec"]["volumes"], real)}
    objects = [
        *_carriers(place, files, slice_name, live_name, slice_hash, settings_hash),
        *_access(place, value, account),
        *_network(place, value, name, own_name),
    ]
    objects += [_extra(place, f"extra[{index}]", body) for index, body in enumerate(value.extra)]
    workload = _workload(place, value, name, own_name, template)
    _check_once(place, [*objects, workload])
    facets = _facets(workload, objects, settings_hash)
    return RenderedComponent(
        place.component, (*sorted(objects, key=lambda item: list(Role).index(item.role)), workload), workload, facets, chosen,
        secrets_of(value), (), labels.selector(place.app.kind, name), slice_hash,
    )  # fmt: skip


def _name(value: Workload) -> str:
    """The name that the author chose, as it can be: a StatefulSet's pods are hosts, so no dots there."""
    if not value.name:
        return ""
    return names.label(value.name) if isinstance(value, StatefulSet) else names.subdomain(value.name)


def _check_once(place: Place, objects: list[Desired]) -> None:
    seen = set()
    for item in objects:
        if item.ref in seen:
            raise place.fail("name", f"{item.kind} {item.name!r} is made twice", "give one of them another name")
        seen.add(item.ref)


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
    over = value.overlay.get("spec", {}).get("template", {})
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


def _services(place: Place, value: Workload) -> list[Service]:
    """What was asked for; the first without a name is the component's own. A StatefulSet needs one that governs it."""
    services = list(value.services)
    if value.service:
        check_ports(place.fail, "service", value.service)
        services.insert(0, Service(ports=value.service))
    elif isinstance(value, StatefulSet) and _container_ports(value) and all(item.name for item in services):
        services.insert(0, Service(ports=_container_ports(value), headless=True))
    if sum(not service.name for service in services) > 1:
        raise place.fail("services", "two Services have no name", "one is the component's own; give the others a name=")
    for index, service in enumerate(services):
        check_ports(place.fail, f"services[{index}].ports", service.ports)
    return services


def _network(place: Place, value: Workload, name: str, own_name: str) -> list[Desired]:
    selector = labels.selector(place.app.kind, name)
    services = _services(place, value)
    own_ports = [as_port(port).number for service in services if not service.name for port in service.ports]
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
        if ingress.port not in own_ports:
            raise place.fail(
                f"ingress[{index}].port",
                f"{ingress.port} is no port of the component's own Service",
                "ask for it with service=[…]",
            )
        name = own_name if index == 0 else f"{own_name}-{index}"
        result.append(place.desired(kinds.INGRESS, name, Role.OBJECT, compact(_ingress(ingress, own_name))))
    return result


def _container_ports(value: Workload) -> tuple[int | Port, ...]:
    """Every port of the pod once: containers share one address, so none can be there twice."""
    found = {(as_port(port).number, as_port(port).protocol): port for one in value.containers for port in one.ports}
    return tuple(found.values())


def _service_port(port: int | Port, *, many: bool) -> dict[str, Any]:
    known = as_port(port)
    made = f"p{known.number}" if known.protocol == "TCP" else f"p{known.number}-{known.protocol.lower()}"
    return {
        "name": known.name or (made if many else None),
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
    body = merge({"spec": compact(spec)}, _without_template(value.overlay))
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


def _facets(workload: Desired, objects: list[Desired], settings_hash: str) -> Facets:
    spec = dict(workload.body["spec"])
    replicas = spec.pop("replicas", None)
    spec.pop("template")
    strategy = (spec.get("strategy") or spec.get("updateStrategy") or {}).get("type", "RollingUpdate")
    others = tuple(
        sorted(
            (f"{item.kind}/{item.name}", item.digest) for item in objects if item.role not in (Role.SLICE, Role.LIVE)
        )
    )
    live = digest([[item.body.get("data"), item.body.get("binaryData")] for item in objects if item.role is Role.LIVE])
    metadata = {
        key: item for key, item in workload.body["metadata"].items() if key in ("labels", "annotations", "name")
    }
    return Facets(
        template=settings_hash, replicas=replicas, live=live, objects=others, rest=digest([workload.kind.kind, metadata, spec]),
        immutable=workload.body["metadata"].get("annotations", {}).get(labels.IMMUTABLE, ""), strategy=strategy,
    )  # fmt: skip


def _extra(place: Place, where: str, given: Mapping[str, Any]) -> Desired:
    body = json_value(place.fail, where, given)
    check_extra(place.fail, where, body)
    api_version, kind_name, name = body["apiVersion"], body["kind"], body["metadata"]["name"]
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
    return place.desired(kind, name, Role.OBJECT, body)


def _without_template(overlay: Mapping[str, Any]) -> dict[str, Any]:
    over = dict(overlay)
    if "spec" in over:
        over["spec"] = {key: item for key, item in over["spec"].items() if key != "template"}
    return over
