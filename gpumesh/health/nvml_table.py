"""Which NVML call gives which value of a card, and what is made of its answer.

The numbers are NVML's ABI (nvml.h) and never change, so that this table needs no driver to be read. A value
names the calls that can give it, best first: an old driver lacks the newer, a new one may drop the older.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

_GPU_SENSOR: Final = 0
_CLOCK_GRAPHICS: Final = 0
_CLOCK_SM: Final = 1
_CLOCK_MEMORY: Final = 2
_CLOCK_VIDEO: Final = 3
_LIMIT_SHUTDOWN: Final = 0
_LIMIT_SLOWDOWN: Final = 1
_LIMIT_MEMORY_MAX: Final = 2
_LIMIT_GPU_MAX: Final = 3
_LOCATION_DRAM: Final = 2
_LOCATION_SRAM: Final = 7


def as_is(answer: Any) -> Any:
    """Return the answer itself."""
    return answer


def first(answer: Any) -> Any:
    """Return the first of an answer's parts (utilisation and its sampling period, MIG's current mode)."""
    return answer[0]


def from_milli(answer: int) -> float:
    """Return watts from milliwatts."""
    return answer / 1000


def as_text(answer: str | bytes) -> str:
    """Return text; older bindings hand out bytes."""
    return answer.decode(errors="replace") if isinstance(answer, bytes) else str(answer)


@dataclass(frozen=True, slots=True)
class Call:
    """One value and the calls that give it."""

    field: str
    functions: tuple[str, ...]
    arguments: tuple[int, ...] = ()
    convert: Callable[[Any], Any] = as_is


IDENTITY: Final = (
    Call("serial", ("nvmlDeviceGetSerial",), convert=as_text),
    Call("minor", ("nvmlDeviceGetMinorNumber",)),
    Call("vbios", ("nvmlDeviceGetVbiosVersion",), convert=as_text),
    Call(
        "capability",
        ("nvmlDeviceGetCudaComputeCapability",),
        convert=lambda answer: f"{answer[0]}.{answer[1]}",
    ),
    Call("power_limit_default_w", ("nvmlDeviceGetPowerManagementDefaultLimit",), convert=from_milli),
    Call(
        "power_limit_max_w",
        ("nvmlDeviceGetPowerManagementLimitConstraints",),
        convert=lambda answer: from_milli(answer[1]),
    ),
    Call(
        "power_limit_min_w",
        ("nvmlDeviceGetPowerManagementLimitConstraints",),
        convert=lambda answer: from_milli(answer[0]),
    ),
    Call("temperature_slowdown_c", ("nvmlDeviceGetTemperatureThreshold",), (_LIMIT_SLOWDOWN,)),
    Call("temperature_shutdown_c", ("nvmlDeviceGetTemperatureThreshold",), (_LIMIT_SHUTDOWN,)),
    Call("temperature_max_c", ("nvmlDeviceGetTemperatureThreshold",), (_LIMIT_GPU_MAX,)),
    Call("temperature_memory_max_c", ("nvmlDeviceGetTemperatureThreshold",), (_LIMIT_MEMORY_MAX,)),
    Call("pcie_gen_max", ("nvmlDeviceGetMaxPcieLinkGeneration",)),
    Call("pcie_gen_card_max", ("nvmlDeviceGetGpuMaxPcieLinkGeneration",)),
    Call("pcie_width_max", ("nvmlDeviceGetMaxPcieLinkWidth",)),
    Call("sm_clock_max_mhz", ("nvmlDeviceGetMaxClockInfo",), (_CLOCK_SM,)),
    Call("memory_clock_max_mhz", ("nvmlDeviceGetMaxClockInfo",), (_CLOCK_MEMORY,)),
    Call("virtualization", ("nvmlDeviceGetVirtualizationMode",)),
    Call("num_mig_instances_max", ("nvmlDeviceGetMaxMigDeviceCount",)),
)
"""Read once a card and session."""

READING: Final = (
    Call("temperature_c", ("nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV"), (_GPU_SENSOR,)),
    Call("temperature_margin_c", ("nvmlDeviceGetMarginTemperature",)),
    Call("fan_percent", ("nvmlDeviceGetFanSpeed",)),
    Call("power_w", ("nvmlDeviceGetPowerUsage",), convert=from_milli),
    Call("power_limit_w", ("nvmlDeviceGetPowerManagementLimit",), convert=from_milli),
    Call("power_limit_enforced_w", ("nvmlDeviceGetEnforcedPowerLimit",), convert=from_milli),
    Call("utilization_encoder_percent", ("nvmlDeviceGetEncoderUtilization",), convert=first),
    Call("utilization_decoder_percent", ("nvmlDeviceGetDecoderUtilization",), convert=first),
    Call("utilization_jpeg_percent", ("nvmlDeviceGetJpgUtilization",), convert=first),
    Call("utilization_ofa_percent", ("nvmlDeviceGetOfaUtilization",), convert=first),
    Call("sm_clock_mhz", ("nvmlDeviceGetClockInfo",), (_CLOCK_SM,)),
    Call("memory_clock_mhz", ("nvmlDeviceGetClockInfo",), (_CLOCK_MEMORY,)),
    Call("graphics_clock_mhz", ("nvmlDeviceGetClockInfo",), (_CLOCK_GRAPHICS,)),
    Call("video_clock_mhz", ("nvmlDeviceGetClockInfo",), (_CLOCK_VIDEO,)),
    Call("performance_state", ("nvmlDeviceGetPerformanceState", "nvmlDeviceGetPowerState")),
    Call(
        "clocks_event_reasons",
        ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"),
    ),
    Call("pcie_gen", ("nvmlDeviceGetCurrPcieLinkGeneration",)),
    Call("pcie_width", ("nvmlDeviceGetCurrPcieLinkWidth",)),
    Call("pcie_replays", ("nvmlDeviceGetPcieReplayCounter",)),
    Call("persistence", ("nvmlDeviceGetPersistenceMode",), convert=bool),
    Call("compute_mode", ("nvmlDeviceGetComputeMode",)),
)
"""Read at each look, one value a call."""

FieldKey = int | tuple[int, int]
"""NVML's number of a field; with a scope where it would otherwise be about the first NVLink alone."""
Fields = Mapping[FieldKey, tuple[str, Callable[[int], Any]]]
"""Field values asked in one batch: which one → what it is called here, and what is made of it."""
_ALL_LINKS: Final = 0xFFFFFFFF

IDENTITY_FIELDS: Final[Fields] = MappingProxyType(
    {91: ("num_nvlinks", int), 194: ("temperature_slowdown_margin_c", int)}
)
"""Read once a card and session."""

FIELDS: Final[Fields] = MappingProxyType(
    {
        3: ("ecc_sbe_volatile", int),
        4: ("ecc_dbe_volatile", int),
        5: ("ecc_sbe_aggregate", int),
        6: ("ecc_dbe_aggregate", int),
        29: ("retired_sbe", int),
        30: ("retired_dbe", int),
        31: ("retired_pending", bool),
        38: ("nvlink_crc_flit_errors", int),
        45: ("nvlink_crc_data_errors", int),
        52: ("nvlink_replay_errors", int),
        59: ("nvlink_recovery_errors", int),
        74: ("power_violation_ns", int),
        75: ("thermal_violation_ns", int),
        76: ("sync_boost_violation_ns", int),
        77: ("board_limit_violation_ns", int),
        78: ("low_utilization_violation_ns", int),
        79: ("reliability_violation_ns", int),
        82: ("temperature_memory_c", int),
        83: ("energy_mj", int),
        95: ("pcie_replay_rollovers", int),
        (138, _ALL_LINKS): ("nvlink_tx_kib", int),
        (139, _ALL_LINKS): ("nvlink_rx_kib", int),
        186: ("power_instant_w", from_milli),
        197: ("pcie_tx_bytes", int),
        198: ("pcie_rx_bytes", int),
        230: ("recovery_action", int),
        269: ("slowdown_software_thermal_ns", int),
        270: ("slowdown_hardware_thermal_ns", int),
        271: ("slowdown_power_brake_ns", int),
    }
)
"""Read at each look."""

SELDOM: Final = (
    Call("display_active", ("nvmlDeviceGetDisplayActive",), convert=bool),
    Call("addressing_mode", ("nvmlDeviceGetAddressingMode",)),
    *(
        Call(
            f"ecc_{where}_{kind}_{span}",
            ("nvmlDeviceGetMemoryErrorCounter",),
            (error, counter, location),
        )
        for where, location in (("sram", _LOCATION_SRAM), ("dram", _LOCATION_DRAM))
        for kind, error in (("corrected", 0), ("uncorrected", 1))
        for span, counter in (("volatile", 0), ("aggregate", 1))
    ),
)
"""Read once in a while, one value a call."""

FIELD_MEMBERS: Final = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Member of a field's value, by NVML's value type."""

UNKNOWN_PERFORMANCE_STATE: Final = 32

REQUIRED: Final = (
    "NVMLError",
    "nvmlInit",
    "nvmlShutdown",
    "nvmlDeviceGetCount",
    "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetFieldValues",
    "nvmlMemory_v2",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlEventSetWait_v2",
)
"""What every nvidia-ml-py since 12.535 has; the PyPI package ``pynvml`` of old lacks some (vllm#7649)."""

PROCESS_CALLS: Final = (
    (
        "compute",
        ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"),
    ),
    (
        "graphics",
        ("nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"),
    ),
)
