"""GPU and host health: devices, checks, baseline, verdicts. Only ``nvml.py`` knows the driver's library."""
