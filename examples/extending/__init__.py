"""The examples of docs/extending.md: what can be added without editing the package."""
