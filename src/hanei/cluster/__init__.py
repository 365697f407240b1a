"""A local Kubernetes control plane for tests and demos."""
