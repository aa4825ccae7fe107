"""Reachability, verdict and admission folded into one headline state, pure."""
