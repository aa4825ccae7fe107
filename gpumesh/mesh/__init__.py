"""One host's whole brain, sans-I/O: membership, records and leases joined. The engine is :class:`gpumesh.mesh.engine.Mesh`."""
