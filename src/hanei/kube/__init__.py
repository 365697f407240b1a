"""The only package that talks to the API server.

kinds → config (kubeconfig, tls, auth) → transport → client. Every failure is a type of `errors`.
"""
