"""The shell: sockets, clocks, the prober's process, sd_notify, wiring."""
