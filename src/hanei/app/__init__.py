"""Pure: what an author imports."""
