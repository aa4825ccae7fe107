"""Membership: SWIM with Lifeguard, sans-I/O. The engine is :class:`gpumesh.swim.engine.Swim`."""
