"""Kinds of the API server: how one is written in an object and where it lives in the URL.

Importable by every layer, like `errors`: pure data, used by everything that names an object. The constants are the kinds that Hanei itself knows; an application's own
kind is made from its declaration. Nothing here asks the server what exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from hanei.errors import WrongUse

FIELD_MANAGER = "hanei"
"""Under which the API server tracks what Hanei wrote."""

BEFORE_FIRST_APPLY = "before-first-apply"
"""Under which it tracks everything that an object had when the first apply came and nothing was tracked."""


@dataclass(frozen=True, slots=True, order=True)
class Kind:
    """One kind: `group` is "" for the core group, `plural` is its word in URLs."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As objects carry it: ``apps/v1``, or ``v1`` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return self.kind

    def path(self, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of one object, or of the collection when there is no name.

        Without a namespace a namespaced kind's path is the collection in all namespaces. A segment that could change
        which object is meant (empty, ``.``, ``..``, with ``/`` or ``%``) raises WrongUse.
        """
        parts = ["api", self.version] if not self.group else ["apis", self.group, self.version]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", namespace]
        elif self.namespaced and name is not None:
            raise WrongUse(f"{self.kind} {name}: a namespace is missing")
        parts.append(self.plural)
        if name is not None:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/" + "/".join(map(_segment, parts))

    def describe(self, namespace: str | None, name: str = "") -> str:
        """For messages: ``Deployment shop/web``, ``deployments in shop``, ``deployments in all namespaces``."""
        if not name:
            place = f" in {namespace or 'all namespaces'}" if self.namespaced else ""
            return f"{self.plural}{place}"
        return f"{self.kind} {namespace}/{name}" if self.namespaced and namespace else f"{self.kind} {name}"


def _segment(text: str) -> str:
    """One path segment as the server will read it back, quoted."""
    if text in ("", ".", "..") or "/" in text or "%" in text:
        raise WrongUse(f"{text!r} cannot be part of a Kubernetes path", hint="It is empty, '.', '..' or holds / or %.")
    return quote(text, safe=":")


CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")
SECRET = Kind("", "v1", "Secret", "secrets")
SERVICE = Kind("", "v1", "Service", "services")
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts")
POD = Kind("", "v1", "Pod", "pods")
PVC = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
NAMESPACE = Kind("", "v1", "Namespace", "namespaces", namespaced=False)
EVENT = Kind("events.k8s.io", "v1", "Event", "events")
DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")
STATEFUL_SET = Kind("apps", "v1", "StatefulSet", "statefulsets")
DAEMON_SET = Kind("apps", "v1", "DaemonSet", "daemonsets")
REPLICA_SET = Kind("apps", "v1", "ReplicaSet", "replicasets")
CONTROLLER_REVISION = Kind("apps", "v1", "ControllerRevision", "controllerrevisions")
INGRESS = Kind("networking.k8s.io", "v1", "Ingress", "ingresses")
NETWORK_POLICY = Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
ROLE = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles")
ROLE_BINDING = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
POD_DISRUPTION_BUDGET = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
HPA = Kind("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
JOB = Kind("batch", "v1", "Job", "jobs")
CRON_JOB = Kind("batch", "v1", "CronJob", "cronjobs")
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")
CRD = Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)

WORKLOADS = frozenset((DEPLOYMENT, STATEFUL_SET))
"""What runs a component's pods."""

BUILT_IN: tuple[Kind, ...] = (
    CONFIG_MAP, SECRET, SERVICE, SERVICE_ACCOUNT, POD, PVC, NAMESPACE, EVENT,
    DEPLOYMENT, STATEFUL_SET, DAEMON_SET, REPLICA_SET, CONTROLLER_REVISION,
    INGRESS, NETWORK_POLICY, ROLE, ROLE_BINDING, POD_DISRUPTION_BUDGET, HPA, JOB, CRON_JOB, LEASE, CRD,
)  # fmt: skip


def known(api_version: str, kind: str) -> Kind | None:
    """The built-in kind that objects with these two fields have, or None."""
    return next((item for item in BUILT_IN if (item.api_version, item.kind) == (api_version, kind)), None)
