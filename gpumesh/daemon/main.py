"""The process: configuration, signals, exit code."""

from __future__ import annotations

import asyncio
import logging
import signal
from pathlib import Path
from typing import Final

from gpumesh.config import Config, load
from gpumesh.daemon.app import Daemon
from gpumesh.daemon.footprint import settle_memory
from gpumesh.daemon.logs import set_up_logging
from gpumesh.daemon.notify import Notifier
from gpumesh.daemon.shortages import Shortages
from gpumesh.errors import ConfigError, FleetKeyError, GpumeshError

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2

_log = logging.getLogger(__name__)


def run(config_path: Path | None) -> int:
    """Run the daemon until a signal or ``gpumesh leave`` ends it; return the exit code.

    :data:`EXIT_USAGE` only where somebody must change a file first; :data:`EXIT_FAILED` for what may pass by
    itself, such as a port that is taken: systemd tries that again.
    """
    try:
        config = load(config_path)
    except ConfigError as error:
        set_up_logging("info", "plain")
        _log.critical("%s", error)
        return EXIT_USAGE
    set_up_logging(config.log.level, config.log.format)
    try:
        asyncio.run(_serve(config, config_path))
    except (ConfigError, FleetKeyError) as error:
        _log.critical("cannot start: %s", error)
        return EXIT_USAGE
    except GpumeshError as error:
        _log.critical("cannot start now: %s", error)
        return EXIT_FAILED
    return 0


async def _serve(config: Config, config_path: Path | None) -> None:
    notifier = Notifier()
    daemon = Daemon(config, notifier)
    await daemon.start()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(Shortages())
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, daemon.begin_stop)
    loop.add_signal_handler(signal.SIGHUP, _reload, daemon, config_path)
    settle_memory()
    notifier.ready()
    try:
        await daemon.wait()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)  # a second signal ends a goodbye that hangs
        await daemon.stop()


def _reload(daemon: Daemon, config_path: Path | None) -> None:
    """Read the configuration again; a wrong one changes nothing."""
    try:
        config = load(config_path)
        set_up_logging(config.log.level, config.log.format)
        needs_restart = daemon.reload(config)
    except GpumeshError as error:
        _log.error("reload refused, the running configuration stays: %s", error)
        return
    if needs_restart:
        _log.warning("reloaded; these changes need `systemctl restart gpumesh`: %s", ", ".join(needs_restart))
    else:
        _log.info("reloaded")
