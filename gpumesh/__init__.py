"""gpumesh: a fleet of GPU hosts that governs itself."""

__version__ = "0.1.0"
