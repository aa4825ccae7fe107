"""The placement rule: pure, and the same on every host for the same view."""
