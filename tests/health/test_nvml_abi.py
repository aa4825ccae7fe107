"""The numbers and shapes written down in the driver's code are those of NVIDIA's header, by the compiler."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

from gpumesh.health import nvml_errors, nvml_events, nvml_gpm, nvml_readings, nvml_table
from tests.fakes.nvml import build
from tests.requirements import lacks

FIELDS = {
    3: "ECC_SBE_VOL_TOTAL",
    4: "ECC_DBE_VOL_TOTAL",
    5: "ECC_SBE_AGG_TOTAL",
    6: "ECC_DBE_AGG_TOTAL",
    29: "RETIRED_SBE",
    30: "RETIRED_DBE",
    31: "RETIRED_PENDING",
    38: "NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
    45: "NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
    52: "NVLINK_REPLAY_ERROR_COUNT_TOTAL",
    59: "NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
    74: "PERF_POLICY_POWER",
    75: "PERF_POLICY_THERMAL",
    76: "PERF_POLICY_SYNC_BOOST",
    77: "PERF_POLICY_BOARD_LIMIT",
    78: "PERF_POLICY_LOW_UTILIZATION",
    79: "PERF_POLICY_RELIABILITY",
    82: "MEMORY_TEMP",
    83: "TOTAL_ENERGY_CONSUMPTION",
    91: "NVLINK_LINK_COUNT",
    95: "PCIE_REPLAY_ROLLOVER_COUNTER",
    138: "NVLINK_THROUGHPUT_DATA_TX",
    139: "NVLINK_THROUGHPUT_DATA_RX",
    186: "POWER_INSTANT",
    194: "TEMPERATURE_SLOWDOWN_TLIMIT",
    197: "PCIE_COUNT_TX_BYTES",
    198: "PCIE_COUNT_RX_BYTES",
    230: "GET_GPU_RECOVERY_ACTION",
    269: "CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN",
    270: "CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN",
    271: "CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN",
}
CODES = {
    1: "UNINITIALIZED",
    2: "INVALID_ARGUMENT",
    3: "NOT_SUPPORTED",
    4: "NO_PERMISSION",
    6: "NOT_FOUND",
    7: "INSUFFICIENT_SIZE",
    8: "INSUFFICIENT_POWER",
    9: "DRIVER_NOT_LOADED",
    10: "TIMEOUT",
    11: "IRQ_ISSUE",
    12: "LIBRARY_NOT_FOUND",
    13: "FUNCTION_NOT_FOUND",
    14: "CORRUPTED_INFOROM",
    15: "GPU_IS_LOST",
    16: "RESET_REQUIRED",
    17: "OPERATING_SYSTEM",
    18: "LIB_RM_VERSION_MISMATCH",
    19: "IN_USE",
    20: "MEMORY",
    21: "NO_DATA",
    22: "VGPU_ECC_NOT_SUPPORTED",
    25: "ARGUMENT_VERSION_MISMATCH",
    26: "DEPRECATED",
    27: "NOT_READY",
    28: "GPU_NOT_FOUND",
    999: "UNKNOWN",
}
NUMBERS = {
    "NVML_TEMPERATURE_GPU": nvml_table._GPU_SENSOR,
    "NVML_CLOCK_GRAPHICS": nvml_table._CLOCK_GRAPHICS,
    "NVML_CLOCK_SM": nvml_table._CLOCK_SM,
    "NVML_CLOCK_MEM": nvml_table._CLOCK_MEMORY,
    "NVML_CLOCK_VIDEO": nvml_table._CLOCK_VIDEO,
    "NVML_TEMPERATURE_THRESHOLD_SHUTDOWN": nvml_table._LIMIT_SHUTDOWN,
    "NVML_TEMPERATURE_THRESHOLD_SLOWDOWN": nvml_table._LIMIT_SLOWDOWN,
    "NVML_TEMPERATURE_THRESHOLD_MEM_MAX": nvml_table._LIMIT_MEMORY_MAX,
    "NVML_TEMPERATURE_THRESHOLD_GPU_MAX": nvml_table._LIMIT_GPU_MAX,
    "NVML_PSTATE_UNKNOWN": nvml_table.UNKNOWN_PERFORMANCE_STATE,
    "NVML_VALUE_TYPE_COUNT": len(nvml_table.FIELD_MEMBERS),
    "nvmlEventTypeXidCriticalError": nvml_events._XID,
    "NVML_ERROR_TIMEOUT": nvml_events._TIMED_OUT,
    "NVML_GPU_VIRTUALIZATION_MODE_VGPU": nvml_readings._VGPU,
    "NVML_GPU_FABRIC_STATE_NOT_SUPPORTED": nvml_readings._FABRIC_NOT_SUPPORTED,
    "NVML_GPU_FABRIC_STATE_COMPLETED": nvml_readings._FABRIC_COMPLETED,
}
METRICS = {1: "GRAPHICS_UTIL", 2: "SM_UTIL", 10: "DRAM_BW_UTIL"}
MEMBERS = ("DOUBLE", "UNSIGNED_INT", "UNSIGNED_LONG", "UNSIGNED_LONG_LONG", "SIGNED_LONG_LONG", "SIGNED_INT")
STRUCTURES = {
    "nvmlFieldValue_t": "c_nvmlFieldValue_t",
    "nvmlMemory_t": "c_nvmlMemory_t",
    "nvmlMemory_v2_t": "c_nvmlMemory_v2_t",
    "nvmlBAR1Memory_t": "c_nvmlBAR1Memory_t",
    "nvmlPciInfo_t": "nvmlPciInfo_t",
    "nvmlUtilization_t": "c_nvmlUtilization_t",
    "nvmlEventData_t": "c_nvmlEventData_t",
    "nvmlDeviceAttributes_t": "c_nvmlDeviceAttributes",
    "nvmlRowRemapperHistogramValues_t": "c_nvmlRowRemapperHistogramValues",
    "nvmlGpmSupport_t": "c_nvmlGpmSupport_t",
    "nvmlGpmSample_t": "c_nvmlGpmSample_t",
}


def compiled(assertions: Iterable[str]) -> str:
    """What the compiler says of these statements under NVIDIA's header; nothing if all hold."""
    compiler = shutil.which("cc")
    if compiler is None:
        lacks("no C compiler here: install gcc (apt install gcc libc6-dev)")
    source = "#include <stddef.h>\n#include <nvml.h>\n" + "\n".join(assertions) + "\n"
    # All versions of a call are wanted, also those that NVIDIA would rather not see used.
    flags = ("-std=c11", "-Werror", "-Wno-deprecated-declarations", "-DNVML_NO_UNVERSIONED_FUNC_DEFS")
    command = [compiler, *flags, "-isystem", str(build.header().parent)]
    done = subprocess.run(
        [*command, "-fsyntax-only", "-x", "c", "-"], input=source, capture_output=True, text=True, check=False
    )
    return done.stderr


def equal(name: str, value: int) -> str:
    return f'_Static_assert({name} == {value}, "{name}");'


def test_a_wrong_number_would_be_seen() -> None:
    assert "NVML_ERROR_GPU_IS_LOST" in compiled([equal("NVML_ERROR_GPU_IS_LOST", 16)])


def test_field_numbers_are_those_of_the_header() -> None:
    used = [*nvml_table.FIELDS, *nvml_table.IDENTITY_FIELDS]
    assert {key[0] if isinstance(key, tuple) else key for key in used} == set(FIELDS)
    assert compiled(equal(f"NVML_FI_DEV_{name}", number) for number, name in FIELDS.items()) == ""


def test_return_codes_are_those_of_the_header() -> None:
    assert set(nvml_errors._WORDS) == set(CODES)
    assert compiled(equal(f"NVML_ERROR_{name}", code) for code, name in CODES.items()) == ""


def test_arguments_and_states_are_those_of_the_header() -> None:
    assert compiled(equal(name, value) for name, value in NUMBERS.items()) == ""


def test_members_of_a_fields_value_are_in_the_order_of_its_types() -> None:
    order = [equal(f"NVML_VALUE_TYPE_{name}", place) for place, name in enumerate(MEMBERS)]
    members = ", ".join(f"offsetof(nvmlValue_t, {name})" for name in nvml_table.FIELD_MEMBERS)
    assert compiled([*order, f"const size_t at[] = {{ {members} }};"]) == ""


def test_the_fabrics_structure_is_laid_out_as_in_the_header() -> None:
    info = nvml_readings._FabricInfo
    places = {"status": info.status.offset, "cliqueId": info.clique.offset, "state": info.state.offset}
    layout = [equal(f"offsetof(nvmlGpuFabricInfo_t, {name})", place) for name, place in places.items()]
    assert compiled([*layout, equal("sizeof(nvmlGpuFabricInfo_t)", ctypes.sizeof(info))]) == ""


def test_the_caches_error_status_is_laid_out_as_in_the_header() -> None:
    status = nvml_readings._SramErrorStatus
    places = {
        "aggregateUncParity": status.counts.offset,
        "bThresholdExceeded": status.is_threshold_exceeded.offset,
    }
    layout = [
        equal(f"offsetof(nvmlEccSramErrorStatus_v1_t, {name})", place) for name, place in places.items()
    ]
    version = equal("nvmlEccSramErrorStatus_v1", nvml_readings._SRAM_ERROR_STATUS_V1)
    size = equal("sizeof(nvmlEccSramErrorStatus_v1_t)", ctypes.sizeof(status))
    assert compiled([*layout, version, size]) == ""


def test_samples_of_activity_are_asked_for_as_in_the_header() -> None:
    asked, metric = nvml_gpm._MetricsGet, nvml_gpm._Metric
    assert set(nvml_gpm.METRICS) == set(METRICS)
    numbers = [equal(f"NVML_GPM_METRIC_{name}", number) for number, name in METRICS.items()]
    places = {
        "nvmlGpmMetricsGet_t, numMetrics": asked.num_metrics.offset,
        "nvmlGpmMetricsGet_t, sample1": asked.before.offset,
        "nvmlGpmMetricsGet_t, sample2": asked.after.offset,
        "nvmlGpmMetricsGet_t, metrics": asked.metrics.offset,
        "nvmlGpmMetric_t, nvmlReturn": metric.result.offset,
        "nvmlGpmMetric_t, value": metric.value.offset,
        "nvmlGpmMetric_t, metricInfo": metric.words.offset,
    }
    layout = [equal(f"offsetof({name})", place) for name, place in places.items()]
    size = equal("sizeof(nvmlGpmMetric_t)", ctypes.sizeof(metric))
    room = f'_Static_assert(sizeof(nvmlGpmMetricsGet_t) <= {ctypes.sizeof(asked)}, "room for every metric");'
    version = equal("NVML_GPM_METRICS_GET_VERSION", nvml_gpm._METRICS_GET_VERSION)
    assert compiled([*numbers, *layout, size, room, version]) == ""


def test_memory_errors_are_asked_for_by_the_headers_numbers() -> None:
    words = {"corrected": "CORRECTED", "uncorrected": "UNCORRECTED"}
    spans = {"volatile": "NVML_VOLATILE_ECC", "aggregate": "NVML_AGGREGATE_ECC"}
    calls = [call for call in nvml_table.SELDOM if call.field.startswith("ecc_")]
    assert len(calls) == 8
    numbers = []
    for call in calls:
        _, place, kind, span = call.field.split("_")
        error, counter, location = call.arguments
        numbers += [
            equal(f"NVML_MEMORY_ERROR_TYPE_{words[kind]}", error),
            equal(spans[span], counter),
            equal(f"NVML_MEMORY_LOCATION_{place.upper()}", location),
        ]
    assert compiled(numbers) == ""


def test_every_call_is_declared_in_the_header() -> None:
    calls = {
        function
        for call in (*nvml_table.IDENTITY, *nvml_table.READING, *nvml_table.SELDOM)
        for function in call.functions
    }
    calls |= {function for _, functions in nvml_table.PROCESS_CALLS for function in functions}
    calls |= set(nvml_gpm.CALLS)
    calls |= {
        name for name in nvml_table.REQUIRED if name.startswith("nvml") and not name.startswith("nvmlM")
    }
    assert len(calls) > 40
    pointers = ", ".join(f"(void (*)(void)){name}" for name in sorted(calls))
    assert compiled([f"void (*const calls[])(void) = {{ {pointers} }};"]) == ""


def test_structures_of_the_binding_have_the_headers_sizes(binding: str) -> None:
    """A binding of another shape would write beside its memory, or read what was never written."""
    nvml: Any = sys.modules["pynvml"] if binding != "installed" else __import__("pynvml")
    sizes = [
        equal(f"sizeof({in_c})", ctypes.sizeof(getattr(nvml, in_python)))
        for in_c, in_python in STRUCTURES.items()
    ]
    assert compiled(sizes) == ""
    members = [name for name, _ in nvml.c_nvmlValue_t._fields_]
    assert members == list(nvml_table.FIELD_MEMBERS)[: len(members)]
    assert len(members) >= len(MEMBERS)
