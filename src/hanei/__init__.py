"""Change a setting, and exactly the pods that use it restart."""
