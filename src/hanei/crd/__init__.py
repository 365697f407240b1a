"""Pure: settings models to a CustomResourceDefinition."""
