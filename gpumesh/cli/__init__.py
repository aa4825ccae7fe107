"""The command line: talks to the daemon over its sockets, and draws."""
