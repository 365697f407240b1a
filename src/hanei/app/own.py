"""`Own`: who a resource is, as its components see it."""

from __future__ import annotations

from dataclasses import dataclass, field

from hanei.app import names
from hanei.errors import AppError


@dataclass(frozen=True, slots=True)
class Own:
    """The resource that a component is rendered for, and the names of its other components' objects.

    `uid` is the resource's uid, "" in a preview of a resource that does not exist yet; rendering must not depend on it.
    """

    name: str
    namespace: str
    uid: str = ""
    group: str = ""
    version: str = ""
    kind: str = ""
    plural: str = ""
    components: frozenset[str] = field(default_factory=frozenset)

    def workload(self, component: str) -> str:
        """The name of a component's workload, unless it chose another one."""
        return names.child(self.name, self._known(component, "workload"))

    def service(self, component: str) -> str:
        """The DNS name, inside the namespace, of a component's Service. Raises `AppError` for an unknown component."""
        return names.child(self.name, self._known(component, "service"))

    def secret(self, component: str) -> str:
        """The name that a Secret of a component has by convention: `<resource>-<component>`."""
        return names.child(self.name, self._known(component, "secret"))

    def _known(self, component: str, what: str) -> str:
        if component not in self.components:
            listed = ", ".join(sorted(self.components))
            raise AppError(
                f"own.{what}({component!r}): there is no such component", hint=f"the components are: {listed}"
            )
        return component
