"""The outside face: HTTP, metrics, server-sent events. Reads views, never the engines."""
