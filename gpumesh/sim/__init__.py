"""A fleet in virtual time over the very engines that the daemon runs."""
