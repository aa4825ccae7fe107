"""One validated configuration: ``gpumesh.toml`` in, frozen values out, or an error that names the key."""

from gpumesh.config.health import HealthConfig
from gpumesh.config.load import DEFAULT_PATH, load, parse
from gpumesh.config.schema import (
    BaselineConfig,
    Config,
    ControlConfig,
    GossipConfig,
    GpuConfig,
    HostConfig,
    HttpConfig,
    JobsConfig,
    LeaseConfig,
    LogConfig,
    SharingConfig,
)

__all__ = [
    "DEFAULT_PATH",
    "BaselineConfig",
    "Config",
    "ControlConfig",
    "GossipConfig",
    "GpuConfig",
    "HealthConfig",
    "HostConfig",
    "HttpConfig",
    "JobsConfig",
    "LeaseConfig",
    "LogConfig",
    "SharingConfig",
    "load",
    "parse",
]
