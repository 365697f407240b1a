"""The engine, without product knowledge.

manager → informers → informer → store; controller ← workqueue; overlay over store; leader; http. Talks to the API server
through `hanei.kube` only.
"""
