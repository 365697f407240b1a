"""Pure: settings to objects."""
