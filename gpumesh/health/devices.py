"""What a GPU driver can say, behind a Protocol: the NVML driver and the simulated one both speak it.

A value that the card, the driver or the library cannot give is None: absent, never zero (dcgm-exporter leaves
such series out; nvidia_gpu_exporter#68). An error of one card never hides the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class DriverInfo:
    """What the driver says of itself, once a session."""

    driver_version: str | None
    library_version: str | None
    cuda_version: str | None
    """Highest CUDA version the driver supports, e.g. ``12.4``."""
    backend: str = "nvml"


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """What does not change while the driver is loaded; read once a card."""

    index: int
    uuid: str
    name: str
    pci_bus_id: str
    """``00000000:01:00.0``, upper-case hex, the driver's form."""
    serial: str | None = None
    minor: int | None = None
    vbios: str | None = None
    capability: str | None = None
    """CUDA compute capability, ``8.9``."""
    memory_total_bytes: int | None = None
    power_limit_default_w: float | None = None
    power_limit_min_w: float | None = None
    power_limit_max_w: float | None = None
    temperature_slowdown_c: int | None = None
    temperature_shutdown_c: int | None = None
    temperature_max_c: int | None = None
    """The card's own GPU_MAX operating limit."""
    temperature_memory_max_c: int | None = None
    temperature_slowdown_margin_c: int | None = None
    """The margin (see Reading) from which the card slows down, e.g. -2: newer cards name no degrees."""
    pcie_gen_max: int | None = None
    """The highest that card and host can agree on."""
    pcie_gen_card_max: int | None = None
    """The card's own; where it is above ``pcie_gen_max``, the host is what limits."""
    pcie_gen_host_max: int | None = None
    """The host's: the slot or switch that the card is in. Not told in most virtual machines."""
    pcie_width_max: int | None = None
    pcie_width_host_max: int | None = None
    """The host's, likewise."""
    sm_clock_max_mhz: int | None = None
    memory_clock_max_mhz: int | None = None
    virtualization: int | None = None
    """NVML's number: 0 none, 1 passed through to this machine, 2 a vGPU, 3 and 4 a host of vGPUs."""
    num_nvlinks: int | None = None
    num_mig_instances_max: int | None = None


@dataclass(frozen=True, slots=True)
class MigInstance:
    """One MIG device: a compute instance in a slice of a card."""

    uuid: str
    gpu_instance: int
    compute_instance: int
    profile: str = ""
    """Its size by name, ``1g.10gb``."""
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_free_bytes: int | None = None
    num_multiprocessors: int | None = None
    """Streaming multiprocessors of its own."""
    utilization_gpu_percent: float | None = None
    """Of the time since the look before, how much anything ran. This and the next two are the whole GPU
    instance's, which its compute instances share; absent before the second look."""
    utilization_sm_percent: float | None = None
    """How many of its multiprocessors had work, on average."""
    utilization_memory_bandwidth_percent: float | None = None
    """How much of its memory's bandwidth was used."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process on a card."""

    pid: int
    kind: str
    """``compute``, ``graphics`` or ``compute+graphics``."""
    memory_bytes: int | None
    """None where the driver cannot say (never 0)."""
    name: str | None = None
    user: str | None = None
    """Whose process it is, by name or else by number; None where /proc does not tell."""
    state: str | None = None
    """The kernel's letter: R, S, D, Z …; X: it knows no such process; None where /proc does not tell."""
    gpu_instance: int | None = None
    """With the next: the MIG instance that it runs in; None on a card that is whole."""
    compute_instance: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at one card; units in the names, None where absent."""

    temperature_c: int | None = None
    temperature_memory_c: int | None = None
    temperature_margin_c: int | None = None
    """Degrees left to the highest operating temperature, below 0 beyond it; nvidia-smi's T.Limit."""
    fan_percent: int | None = None
    power_w: float | None = None
    power_instant_w: float | None = None
    """At this instant, where ``power_w`` is an average over the last second."""
    power_limit_w: float | None = None
    """As it was asked for."""
    power_limit_enforced_w: float | None = None
    """The lowest of all limits: the asked one, the board's, the chassis'."""
    energy_mj: int | None = None
    utilization_gpu_percent: int | None = None
    utilization_memory_percent: int | None = None
    utilization_encoder_percent: int | None = None
    utilization_decoder_percent: int | None = None
    utilization_jpeg_percent: int | None = None
    utilization_ofa_percent: int | None = None
    """The optical flow accelerator."""
    memory_used_bytes: int | None = None
    memory_free_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    bar1_total_bytes: int | None = None
    """The window through which the host and other devices reach the card's memory. Read once in a while."""
    bar1_used_bytes: int | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    graphics_clock_mhz: int | None = None
    video_clock_mhz: int | None = None
    performance_state: int | None = None
    clocks_event_reasons: int | None = None
    """NVML's bit mask."""
    power_violation_ns: int | None = None
    """Time for which clocks were held down since the driver was loaded, by reason: this one and the next."""
    thermal_violation_ns: int | None = None
    sync_boost_violation_ns: int | None = None
    board_limit_violation_ns: int | None = None
    low_utilization_violation_ns: int | None = None
    reliability_violation_ns: int | None = None
    slowdown_software_thermal_ns: int | None = None
    slowdown_hardware_thermal_ns: int | None = None
    slowdown_power_brake_ns: int | None = None
    pcie_gen: int | None = None
    pcie_width: int | None = None
    pcie_replays: int | None = None
    pcie_replay_rollovers: int | None = None
    pcie_tx_bytes: int | None = None
    """A counter, which may wrap; the driver's own rate would block for 20 ms a call."""
    pcie_rx_bytes: int | None = None
    nvlinks: tuple[bool | None, ...] | None = None
    """Each link by number: up, down, or None for one that is not there. Read once in a while."""
    nvlink_tx_kib: int | None = None
    """Payload over all links, a counter."""
    nvlink_rx_kib: int | None = None
    nvlink_crc_flit_errors: int | None = None
    nvlink_crc_data_errors: int | None = None
    nvlink_replay_errors: int | None = None
    nvlink_recovery_errors: int | None = None
    ecc_enabled: bool | None = None
    ecc_enabled_pending: bool | None = None
    """What ECC will be after the next reboot."""
    ecc_sbe_volatile: int | None = None
    ecc_dbe_volatile: int | None = None
    ecc_sbe_aggregate: int | None = None
    ecc_dbe_aggregate: int | None = None
    ecc_sram_corrected_volatile: int | None = None
    """By where they were: in the caches (SRAM) or in the card's memory (DRAM). Read once in a while."""
    ecc_sram_uncorrected_volatile: int | None = None
    ecc_sram_corrected_aggregate: int | None = None
    ecc_sram_uncorrected_aggregate: int | None = None
    ecc_dram_corrected_volatile: int | None = None
    ecc_dram_uncorrected_volatile: int | None = None
    ecc_dram_corrected_aggregate: int | None = None
    ecc_dram_uncorrected_aggregate: int | None = None
    ecc_sram_threshold_exceeded: bool | None = None
    """The driver's word that the caches had more errors than the card may have. Told to root alone."""
    retired_sbe: int | None = None
    retired_dbe: int | None = None
    retired_pending: bool | None = None
    remapped_correctable: int | None = None
    remapped_uncorrectable: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    remap_banks_max: int | None = None
    """Memory banks that have all their spare rows; this one and the next four make up the card."""
    remap_banks_high: int | None = None
    remap_banks_partial: int | None = None
    remap_banks_low: int | None = None
    remap_banks_none: int | None = None
    recovery_action: int | None = None
    """NVML field 230: 0 none, 1 GPU reset, 2 node reboot, 3 drain P2P, 4 drain and reset."""
    persistence: bool | None = None
    compute_mode: int | None = None
    display_active: bool | None = None
    addressing_mode: int | None = None
    """How the card sees the host's memory: 0 none, 1 HMM, 2 ATS."""
    fabric_state: int | None = None
    """NVLink switch fabric: 1 not started, 2 in progress, 3 completed."""
    fabric_status: int | None = None
    """NVML's return code of a fabric registration that is completed; 0 is success."""
    fabric_cluster: str | None = None
    """With the next, of a card that is registered: which NVLink domain it belongs to, a UUID."""
    fabric_clique: int | None = None
    """Cards of one cluster and clique reach each other's memory."""
    mig_enabled: bool | None = None
    mig_enabled_pending: bool | None = None
    mig_instances: tuple[MigInstance, ...] | None = None
    """None: MIG is not there or off; empty: on, and nothing was carved out."""
    processes: tuple[Process, ...] | None = None
    """None: the driver cannot list them; empty: nobody is there."""


@dataclass(frozen=True, slots=True)
class DeviceState:
    """One card in one probe: its identity if it could be had, its reading, or what failed."""

    index: int
    info: DeviceInfo | None
    reading: Reading | None
    error: str = ""
    """Empty when it was read; otherwise the driver's words, e.g. ``GPU is lost (NVML 15)``.

    Beside a reading: a call failed, and its value alone is absent.
    """
    error_code: int | None = None
    is_lost: bool = False
    """The driver said that it cannot reach this card (15, 28, or an unknown error on its handle)."""
    num_dropped: int = 0
    """Absurd values left out of the reading."""
    xids: tuple[int, ...] = ()
    """Xids that the driver has told of this card since the last look."""
    is_resting: bool = False
    """Asleep, or about to be: the card was not touched, and what is known of it stands."""
    last_reading: Reading | None = None
    """Of a resting card: what it said when it was read last. Not what it would say now."""
    last_read_unix: float | None = None
    """When that was, Unix seconds."""


@dataclass(frozen=True, slots=True)
class XidEvent:
    """An Xid that the driver told of while it was looked at."""

    pci_bus_id: str
    xid: int


@dataclass(frozen=True, slots=True)
class XidCount:
    """One Xid of one card since boot, from all sources; see gpumesh/health/xids.py."""

    uuid: str
    """Empty for a card that the driver has not named."""
    pci_bus_id: str
    """The card's, or its PCI address without the function where the card is not known."""
    xid: int | None
    """None: the kernel said without an Xid that the card fell off the bus."""
    num_seen: int
    last_unix: float
    is_settled: bool
    """The card has recovered since, or the Xid asks for nothing."""


@dataclass(frozen=True, slots=True)
class Probe:
    """The outcome of one look at all cards."""

    driver: DriverInfo | None
    """None when no driver answered; ``error`` says why."""
    devices: tuple[DeviceState, ...] = ()
    num_devices: int | None = None
    """The driver's own count; None if it could not be had."""
    error: str = ""
    error_code: int | None = None
    is_hung: bool = False
    """No answer within the deadline; ``call`` and ``hung_for_s`` say in what and for how long."""
    call: str = ""
    hung_for_s: float = 0.0
    duration_s: float = 0.0
    pci_addresses: tuple[str, ...] | None = None
    """NVIDIA display controllers on the PCI bus by sysfs, in the driver's form; None: bus unreadable."""
    xid_events: tuple[XidEvent, ...] = ()
    """What the driver told since the last look, each exactly once."""
    xids: tuple[XidCount, ...] = ()
    """All Xids since boot, joined with the kernel's log; filled in by the daemon."""


class Driver(Protocol):
    """A GPU driver. Every call may block for as long as the driver likes: only a child process calls it."""

    def open(self) -> DriverInfo:
        """Attach to the driver. Errors: DriverAbsentError (no driver), DriverError (any other answer)."""
        ...

    def close(self) -> None:
        """Let go of the driver, so that it can be upgraded or unbound; never raises."""
        ...

    def count(self) -> int:
        """Return how many cards the driver sees now. Errors: DriverError."""
        ...

    def probe_device(self, index: int) -> DeviceState:
        """Look at one card. Never raises for what one card does: the error stands in the state."""
        ...
