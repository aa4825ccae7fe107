"""One host's whole brain, sans-I/O: membership, records and leases joined.

The engine is :class:`gpumesh.mesh.engine.Mesh`; the daemon and the simulator drive the same one.
"""
