"""The error tree: everything gpumesh raises on purpose descends from :class:`GpumeshError`.

Whose fault an error is decides its branch: the operator's configuration, a peer's message, the host's
state directory, the driver, or the person at the command line. Each message names what to do.
"""

from collections.abc import Iterable

_LONGEST_WORD = 40
"""What is longer than any name of ours resembles none, and comparing costs the square of the length."""


def did_you_mean(given: str, known: Iterable[str], otherwise: str) -> str:
    """Return the hint for a name that nobody knows: the known one that it resembles, else ``otherwise``."""
    import difflib  # noqa: PLC0415 - a daemon that nobody asks for what does not exist does without it

    near = difflib.get_close_matches(given[:_LONGEST_WORD], known, n=1)
    return f"did you mean {near[0]}?" if near else otherwise


class GpumeshError(Exception):
    """Any fault that gpumesh detected itself and can put into words."""


class ConfigError(GpumeshError):
    """The configuration is wrong: the message names the file, the key and what would be right."""


class FleetKeyError(GpumeshError):
    """A fleet key or join token is malformed, missing, or readable by others."""


class StateError(GpumeshError):
    """The state directory cannot be used as asked; the daemon goes on and says what it loses."""


class RejectedError(GpumeshError):
    """An input from outside was refused and changed nothing.

    ``reason`` is a short stable word (``unknown_key``, ``replay``, ``too_large`` …) under which the drop
    is counted in metrics.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


class ReflectedError(RejectedError):
    """What this run sent came back to it, whole: nobody else can have made it. ``body`` is what it holds."""

    def __init__(self, body: bytes) -> None:
        super().__init__("reflected")
        self.body = body


class TransitionError(GpumeshError):
    """A state change that the transition table does not hold; nothing was changed."""


class DriverError(GpumeshError):
    """The GPU driver answered with an error; ``code`` is NVML's return code, ``call`` what was asked."""

    def __init__(self, message: str, *, code: int | None = None, call: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.call = call


class GpuLostError(DriverError):
    """The driver no longer reaches this GPU (NVML 15, 28 or an unknown error on its handle)."""


class NotSupportedError(DriverError):
    """This card, driver or library cannot say; the value is absent, never zero."""


class DriverAbsentError(DriverError):
    """No usable driver on this host (NVML 9, 12 or 18); the daemon stays up and asks again."""


class RequestError(GpumeshError):
    """A placement request, flag or HTTP query is malformed; the message names the field."""


class UnreachableError(GpumeshError):
    """The daemon did not answer on its socket; the message says where it was looked for."""
