"""The least rights of an app's operator, and the admission policy for a settings page's account. Pure.

Every rule stands for something that the operator does; the system tests run it with exactly these. Rights that it holds
only to grant them to a component (a Role may grant no more than its maker has) come last and say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hanei import kinds
from hanei.app import names
from hanei.app.settings import Leaf, Settings, leaves
from hanei.kinds import Kind
from hanei.operator.secrets import KEY_SECRET
from hanei.plan.explore import kinds_of, rendered_sample, uses_secrets
from hanei.render.model import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hanei.app.application import App

CHILD_VERBS = ("create", "delete", "get", "list", "patch", "watch")
POLICY_KIND = {"apiVersion": "admissionregistration.k8s.io/v1"}


@dataclass(frozen=True, slots=True)
class Rule:
    """One RBAC rule."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """As it stands in a Role."""
        found: dict[str, Any] = {"apiGroups": [self.group], "resources": [self.resource], "verbs": list(self.verbs)}
        return found | ({"resourceNames": list(self.names)} if self.names else {})


def lease_name(apps: Iterable[App[Any]]) -> str:
    """The Lease of an operator that runs these apps."""
    return names.subdomain("hanei-" + "-".join(sorted(app.kind.plural for app in apps)))


def watched_rules(app: App[Any], secrets: Sequence[str] = ()) -> list[Rule]:
    """What the operator does in the namespaces that it watches. `secrets` are further Secrets that settings may name."""
    kind, made = app.kind, kinds_of(app)
    rules = [
        Rule(kind.group, kind.plural, ("get", "list", "watch")),
        Rule(kind.group, f"{kind.plural}/status", ("patch",)),
        *(Rule(one.group, one.plural, CHILD_VERBS) for one in sorted(made)),
        Rule(kinds.POD.group, kinds.POD.plural, ("list", "watch")),
        Rule(kinds.HPA.group, kinds.HPA.plural, ("list", "watch")),
        Rule(kinds.EVENT.group, kinds.EVENT.plural, ("create",)),
    ]
    if app.history:
        rules.append(Rule("apps", kinds.CONTROLLER_REVISION.plural, CHILD_VERBS))
    if kinds.CONFIG_MAP in made:
        rules.append(Rule("apps", kinds.REPLICA_SET.plural, ("list",)))
        if not app.history:
            rules.append(Rule("apps", kinds.CONTROLLER_REVISION.plural, ("list",)))
    named = sorted(
        {*secrets, *(ref.name for component in rendered_sample(app).components for ref in component.secrets)}
    )
    if named:
        rules.append(Rule("", kinds.SECRET.plural, ("list", "watch"), tuple(named)))
    return rules


def granted_rules(app: App[Any]) -> list[Rule]:
    """Rights held only to be granted: what the Roles of components say, without the names of single objects."""
    found: dict[tuple[str, str], set[str]] = {}
    for component in rendered_sample(app).components:
        for item in component.objects:
            if item.role is Role.ACCESS and item.kind == kinds.ROLE:
                for rule in item.body.get("rules", ()):
                    for group in rule["apiGroups"]:
                        for resource in rule["resources"]:
                            found.setdefault((group, resource), set()).update(rule["verbs"])
    return [Rule(group, resource, tuple(sorted(verbs))) for (group, resource), verbs in sorted(found.items())]


def home_rules(apps: Sequence[App[Any]]) -> list[Rule]:
    """What the operator does in its own namespace: its Lease, and the key of its secret stamps."""
    rules = [
        Rule("coordination.k8s.io", kinds.LEASE.plural, ("create",)),
        Rule("coordination.k8s.io", kinds.LEASE.plural, ("get", "update"), (lease_name(apps),)),
    ]
    if any(uses_secrets(app) for app in apps):
        rules += [
            Rule("", kinds.SECRET.plural, ("create",)),
            Rule("", kinds.SECRET.plural, ("get", "list", "watch"), (KEY_SECRET,)),
        ]
    return rules


def manifests(
    apps: Sequence[App[Any]], *, namespace: str, account: str, cluster_wide: bool, secrets: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """ServiceAccount, roles, bindings and admission policies, for `kubectl apply`."""
    watched = merged(rule for app in apps for rule in (*watched_rules(app, secrets), *granted_rules(app)))
    home = merged(home_rules(apps))
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    result = [_object(kinds.SERVICE_ACCOUNT, account, namespace)]
    if cluster_wide:
        cluster_role = Kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
        binding = Kind("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)
        result += [
            _object(cluster_role, account, "", rules=_json(watched)),
            _bound(binding, cluster_role, account, "", subject),
        ]
        result += [
            _object(kinds.ROLE, account, namespace, rules=_json(home)),
            _bound(kinds.ROLE_BINDING, kinds.ROLE, account, namespace, subject),
        ]
    else:
        result += [
            _object(kinds.ROLE, account, namespace, rules=_json(merged([*watched, *home]))),
            _bound(kinds.ROLE_BINDING, kinds.ROLE, account, namespace, subject),
        ]
    for app in apps:
        result += policies(app)
    return result


def merged(rules: Iterable[Rule]) -> list[Rule]:
    """Rules of one resource and the same names, as one rule; in a fixed order."""
    found: dict[tuple[str, str, tuple[str, ...]], set[str]] = {}
    for rule in rules:
        found.setdefault((rule.group, rule.resource, rule.names), set()).update(rule.verbs)
    return [
        Rule(group, resource, tuple(sorted(verbs)), only) for (group, resource, only), verbs in sorted(found.items())
    ]


def page_components(app: App[Any]) -> list[str]:
    """Components whose account may patch the app's own resources: settings pages."""
    return [
        component.name
        for component in rendered_sample(app).components
        for item in component.objects
        if item.kind == kinds.ROLE
        for rule in item.body.get("rules", ())
        if app.kind.group in rule["apiGroups"]
        and app.kind.plural in rule["resources"]
        and {"patch", "update"} & set(rule["verbs"])
    ]


def policies(app: App[Any]) -> list[dict[str, Any]]:
    """The ValidatingAdmissionPolicy that lets a settings page change only settings of class `setting`, and its binding.

    RBAC cannot tell fields apart, and who may set an image runs code in the cluster.
    """
    pages = page_components(app)
    if not pages:
        return []
    kind = app.kind
    name = names.subdomain(f"hanei-settings-{kind.plural}.{kind.group}")
    rule = {
        "apiGroups": [kind.group],
        "apiVersions": [kind.version],
        "operations": ["UPDATE"],
        "resources": [kind.plural],
    }
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "settings-page", "expression": _is_page(pages)}],
        "validations": _validations(app),
    }
    policy = {
        **POLICY_KIND,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "hanei"}},
        "spec": spec,
    }
    binding = {
        **policy,
        "kind": "ValidatingAdmissionPolicyBinding",
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    return [policy, binding]


def _is_page(pages: Sequence[str]) -> str:
    """CEL: the account is a page's of this namespace. Long names end in a hash that CEL cannot compute: those match by form."""
    account = "request.userInfo.username"
    prefix = "'system:serviceaccount:' + object.metadata.namespace + ':'"
    own = " || ".join(f"{account} == {prefix} + object.metadata.name + '-{page}'" for page in pages)
    hashed = f"({account}.startsWith({prefix}) && {account}.matches(':[a-z][a-z0-9-]{{0,41}}-[0-9a-f]{{10}}$'))"
    return f"{own} || {hashed}"


def _validations(app: App[Any]) -> list[dict[str, Any]]:
    fixed = [leaf.path for leaf in leaves(app.settings) if _guarded(leaf)]
    found = [_unchanged(f"spec.{path}") for path in (*fixed, "suspend", "rollout")]
    return [
        *found,
        *(_unchanged(f"metadata.{part}") for part in ("labels", "annotations", "ownerReferences", "finalizers")),
    ]


def _guarded(leaf: Leaf) -> bool:
    """Whether a setting is not the page's to change: an image, rights, a Secret's name, or a list or map that holds one."""
    inside = (inner for model in _models_in(leaf.annotation) for inner in leaves(model))
    return leaf.about.klass != "setting" or leaf.about.secret or any(_guarded(inner) for inner in inside)


def _models_in(annotation: Any) -> Iterator[type[Settings]]:
    """The `Settings` classes that an annotation names, at any depth: `list[Item]`, `dict[str, Item]`, `… | None`."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _models_in(inner)


def _unchanged(path: str) -> dict[str, Any]:
    parts = ".".join(f"?{part}" for part in path.split("."))
    return {
        "expression": f"object.{parts} == oldObject.{parts}",
        "message": f"{path} may not be changed from the settings page",
        "reason": "Forbidden",
    }


def _json(rules: Iterable[Rule]) -> list[dict[str, Any]]:
    return [rule.as_json() for rule in rules]


def _object(kind: Kind, name: str, namespace: str, **rest: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "labels": {"app.kubernetes.io/managed-by": "hanei"}}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **rest}


def _bound(kind: Kind, role: Kind, name: str, namespace: str, subject: dict[str, Any]) -> dict[str, Any]:
    return _object(
        kind, name, namespace, roleRef={"apiGroup": role.group, "kind": role.kind, "name": name}, subjects=[subject]
    )
