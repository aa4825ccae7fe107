"""A fleet in virtual time: the daemon's own engines over a lossy network, on clocks that drift and stop."""
