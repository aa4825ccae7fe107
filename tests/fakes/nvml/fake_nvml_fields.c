/* Readings by field number: each has a return code of its own, the call as a whole another. */
#include "fake_nvml.h"

#include <time.h>

static const struct field {
    unsigned int id;
    nvmlValueType_t type;
    const char *key;
} fields[] = {
    {NVML_FI_DEV_RETIRED_SBE, NVML_VALUE_TYPE_UNSIGNED_INT, "retired_pages_single_bit"},
    {NVML_FI_DEV_RETIRED_DBE, NVML_VALUE_TYPE_UNSIGNED_INT, "retired_pages_double_bit"},
    {NVML_FI_DEV_RETIRED_PENDING, NVML_VALUE_TYPE_UNSIGNED_INT, "retired_pages_pending"},
    {NVML_FI_DEV_PERF_POLICY_POWER, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, "violation_power_ns"},
    {NVML_FI_DEV_PERF_POLICY_THERMAL, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, "violation_thermal_ns"},
    {NVML_FI_DEV_PERF_POLICY_SYNC_BOOST, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, "violation_sync_boost_ns"},
    {NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, "violation_board_limit_ns"},
    {NVML_FI_DEV_PERF_POLICY_LOW_UTILIZATION, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, "violation_low_utilization_ns"},
    {NVML_FI_DEV_PERF_POLICY_RELIABILITY, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, "violation_reliability_ns"},
    {NVML_FI_DEV_PERF_POLICY_TOTAL_APP_CLOCKS, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, "violation_total_app_clocks_ns"},
    {NVML_FI_DEV_PERF_POLICY_TOTAL_BASE_CLOCKS, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, "violation_total_base_clocks_ns"},
    {NVML_FI_DEV_MEMORY_TEMP, NVML_VALUE_TYPE_UNSIGNED_INT, "temperature_memory_c"},
    {NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, "energy_total_mj"},
    {NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON, NVML_VALUE_TYPE_UNSIGNED_INT, "nvlink_speed_mbps"},
    {NVML_FI_DEV_NVLINK_LINK_COUNT, NVML_VALUE_TYPE_UNSIGNED_INT, "num_nvlinks"},
    {NVML_FI_DEV_PCIE_REPLAY_COUNTER, NVML_VALUE_TYPE_UNSIGNED_INT, "pcie_replays"},
    {NVML_FI_DEV_PCIE_REPLAY_ROLLOVER_COUNTER, NVML_VALUE_TYPE_UNSIGNED_INT, "pcie_replay_rollovers"},
    {NVML_FI_DEV_REMAPPED_COR, NVML_VALUE_TYPE_UNSIGNED_INT, "remapped_rows_correctable"},
    {NVML_FI_DEV_REMAPPED_UNC, NVML_VALUE_TYPE_UNSIGNED_INT, "remapped_rows_uncorrectable"},
    {NVML_FI_DEV_REMAPPED_PENDING, NVML_VALUE_TYPE_UNSIGNED_INT, "remapped_rows_pending"},
    {NVML_FI_DEV_REMAPPED_FAILURE, NVML_VALUE_TYPE_UNSIGNED_INT, "remapped_rows_failed"},
    {NVML_FI_DEV_POWER_AVERAGE, NVML_VALUE_TYPE_UNSIGNED_INT, "power_mw"},
    {NVML_FI_DEV_POWER_INSTANT, NVML_VALUE_TYPE_UNSIGNED_INT, "power_instant_mw"},
    {NVML_FI_DEV_POWER_MIN_LIMIT, NVML_VALUE_TYPE_UNSIGNED_INT, "power_limit_min_mw"},
    {NVML_FI_DEV_POWER_MAX_LIMIT, NVML_VALUE_TYPE_UNSIGNED_INT, "power_limit_max_mw"},
    {NVML_FI_DEV_POWER_DEFAULT_LIMIT, NVML_VALUE_TYPE_UNSIGNED_INT, "power_limit_default_mw"},
    {NVML_FI_DEV_POWER_CURRENT_LIMIT, NVML_VALUE_TYPE_UNSIGNED_INT, "power_limit_mw"},
    {NVML_FI_DEV_POWER_REQUESTED_LIMIT, NVML_VALUE_TYPE_UNSIGNED_INT, "power_limit_mw"},
    {NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT, NVML_VALUE_TYPE_SIGNED_INT, "margin_shutdown_c"},
    {NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT, NVML_VALUE_TYPE_SIGNED_INT, "margin_slowdown_c"},
    {NVML_FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT, NVML_VALUE_TYPE_SIGNED_INT, "margin_memory_max_c"},
    {NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT, NVML_VALUE_TYPE_SIGNED_INT, "margin_gpu_max_c"},
    {NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, NVML_VALUE_TYPE_UNSIGNED_INT, "recovery_action"},
    {NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG,
     "slowdown_software_thermal_ns"},
    {NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG,
     "slowdown_hardware_thermal_ns"},
    {NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG,
     "slowdown_power_brake_ns"},
};

/* The totals over SRAM and DRAM that the ECC fields report. */
static const struct ecc_field {
    unsigned int id;
    const char *sram_key, *dram_key;
} ecc_fields[] = {
    {NVML_FI_DEV_ECC_SBE_VOL_TOTAL, "ecc_sram_corrected_volatile", "ecc_dram_corrected_volatile"},
    {NVML_FI_DEV_ECC_DBE_VOL_TOTAL, "ecc_sram_uncorrected_volatile", "ecc_dram_uncorrected_volatile"},
    {NVML_FI_DEV_ECC_SBE_AGG_TOTAL, "ecc_sram_corrected_aggregate", "ecc_dram_corrected_aggregate"},
    {NVML_FI_DEV_ECC_DBE_AGG_TOTAL, "ecc_sram_uncorrected_aggregate", "ecc_dram_uncorrected_aggregate"},
};

static void value_store(nvmlFieldValue_t *value, nvmlValueType_t type, unsigned long long number)
{
    value->valueType = type;
    value->value.ullVal = 0;
    if (type == NVML_VALUE_TYPE_SIGNED_INT)
        value->value.siVal = (int)number;
    else if (type == NVML_VALUE_TYPE_UNSIGNED_INT)
        value->value.uiVal = (unsigned int)number;
    else
        value->value.ullVal = number;
}

static nvmlReturn_t ecc_total(slot_t slot, const struct ecc_field *field, unsigned long long *total)
{
    unsigned long long sram, dram;
    nvmlReturn_t result = state_u64(slot, field->sram_key, &sram);
    if (result == NVML_SUCCESS)
        result = state_u64(slot, field->dram_key, &dram);
    if (result == NVML_SUCCESS)
        *total = sram + dram;
    return result;
}

static nvmlReturn_t value_read(slot_t slot, nvmlFieldValue_t *value)
{
    unsigned long long number = 0;
    nvmlReturn_t result = NVML_ERROR_NOT_SUPPORTED;
    nvmlValueType_t type = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
    bool is_known = state_field(slot, value->fieldId, &result, &number);
    for (size_t i = 0; !is_known && i < sizeof fields / sizeof fields[0]; i++) {
        is_known = fields[i].id == value->fieldId;
        if (is_known) {
            type = fields[i].type;
            result = state_u64(slot, fields[i].key, &number);
        }
    }
    for (size_t i = 0; !is_known && i < sizeof ecc_fields / sizeof ecc_fields[0]; i++) {
        is_known = ecc_fields[i].id == value->fieldId;
        if (is_known)
            result = ecc_total(slot, &ecc_fields[i], &number);
    }
    if (result == NVML_SUCCESS)
        value_store(value, type, number);
    return result;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int valuesCount, nvmlFieldValue_t *values)
{
    slot_t slot;
    struct timespec now;
    nvmlReturn_t result = enter_device(__func__, device, &slot);
    if (result != NVML_SUCCESS)
        return result;
    if (valuesCount < 1 || values == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    clock_gettime(CLOCK_REALTIME, &now);
    for (int i = 0; i < valuesCount; i++) {
        values[i].timestamp = (long long)now.tv_sec * 1000000LL + now.tv_nsec / 1000L;
        values[i].latencyUsec = 0;
        values[i].nvmlReturn = value_read(slot, &values[i]);
    }
    return NVML_SUCCESS;
}
