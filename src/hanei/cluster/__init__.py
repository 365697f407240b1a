"""A local Kubernetes control plane for tests and demos: real programs, simulated nodes.

::

    from hanei.cluster import up, down

    cluster = up("dev")          # 4 s once the binaries are there; a running one is returned as it is
    cluster.kubeconfig           # for kubectl, for `hanei run`
    down("dev")

Read `lifecycle` first, then `start` (what is started), `commands` (with which flags) and `binaries` (where the
programs come from). Beside the stack: nothing of the operator is imported here.
"""

from hanei.cluster.lifecycle import down, find, prepare, status, up
from hanei.cluster.model import Cluster, Node, State, Status
from hanei.cluster.progress import Progress

__all__ = ["Cluster", "Node", "Progress", "State", "Status", "down", "find", "prepare", "status", "up"]
