"""Anti-entropy of the hosts' records, sans-I/O: entries with versions, written by their owner only."""
