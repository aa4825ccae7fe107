/* What a card does just now: clocks, heat, power, use, and its link to the host. */
#include "fake_nvml.h"

#include <time.h>

#define SAMPLING_PERIOD_US 167000

/* The key at that place of a table, NULL (an invalid argument) outside of it. */
#define KEY_AT(keys, index) ((size_t)(index) < sizeof(keys) / sizeof *(keys) ? (keys)[index] : NULL)

/* ---- clocks ---- */

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock)
{
    static const char *const keys[] = {"clock_graphics_mhz", "clock_sm_mhz", "clock_memory_mhz", "clock_video_mhz"};
    return read_u32(__func__, device, KEY_AT(keys, type), clock);
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock)
{
    static const char *const keys[] = {"clock_graphics_max_mhz", "clock_sm_max_mhz", "clock_memory_max_mhz",
                                       "clock_video_max_mhz"};
    return read_u32(__func__, device, KEY_AT(keys, type), clock);
}

static nvmlReturn_t performance_state(const char *call, nvmlDevice_t device, nvmlPstates_t *state)
{
    unsigned int number;
    if (state == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = read_u32(call, device, "performance_state", &number);
    if (result == NVML_SUCCESS)
        *state = (nvmlPstates_t)number;
    return result;
}

nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, nvmlPstates_t *pState)
{
    return performance_state(__func__, device, pState);
}

/* The older name of the same. */
nvmlReturn_t nvmlDeviceGetPowerState(nvmlDevice_t device, nvmlPstates_t *pState)
{
    return performance_state(__func__, device, pState);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *clocksEventReasons)
{
    return read_u64(__func__, device, "clocks_event_reasons", clocksEventReasons);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long *clocksThrottleReasons)
{
    return read_u64(__func__, device, "clocks_event_reasons", clocksThrottleReasons);
}

nvmlReturn_t nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t device,
                                                      unsigned long long *supportedClocksEventReasons)
{
    return read_u64(__func__, device, "clocks_event_reasons_supported", supportedClocksEventReasons);
}

nvmlReturn_t nvmlDeviceGetSupportedClocksThrottleReasons(nvmlDevice_t device,
                                                         unsigned long long *supportedClocksThrottleReasons)
{
    return read_u64(__func__, device, "clocks_event_reasons_supported", supportedClocksThrottleReasons);
}

nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t device, nvmlPerfPolicyType_t perfPolicyType,
                                          nvmlViolationTime_t *violTime)
{
    static const char *const keys[NVML_PERF_POLICY_COUNT] = {
        [NVML_PERF_POLICY_POWER] = "violation_power_ns",
        [NVML_PERF_POLICY_THERMAL] = "violation_thermal_ns",
        [NVML_PERF_POLICY_SYNC_BOOST] = "violation_sync_boost_ns",
        [NVML_PERF_POLICY_BOARD_LIMIT] = "violation_board_limit_ns",
        [NVML_PERF_POLICY_LOW_UTILIZATION] = "violation_low_utilization_ns",
        [NVML_PERF_POLICY_RELIABILITY] = "violation_reliability_ns",
        [NVML_PERF_POLICY_TOTAL_APP_CLOCKS] = "violation_total_app_clocks_ns",
        [NVML_PERF_POLICY_TOTAL_BASE_CLOCKS] = "violation_total_base_clocks_ns",
    };
    struct timespec now;
    if (violTime == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    clock_gettime(CLOCK_REALTIME, &now);
    violTime->referenceTime = (unsigned long long)now.tv_sec * 1000000ULL + (unsigned long long)now.tv_nsec / 1000ULL;
    return read_u64(__func__, device, KEY_AT(keys, perfPolicyType), &violTime->violationTime);
}

/* ---- use ---- */

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
    if (utilization == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    return read_u32_pair(__func__, device, "utilization_gpu_percent", &utilization->gpu, "utilization_memory_percent",
                         &utilization->memory);
}

static nvmlReturn_t sampled(const char *call, nvmlDevice_t device, const char *key, unsigned int *percent,
                            unsigned int *period_us)
{
    nvmlReturn_t result = read_u32(call, device, key, percent);
    if (result == NVML_SUCCESS && period_us != NULL)
        *period_us = SAMPLING_PERIOD_US;
    return result;
}

nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned int *utilization,
                                             unsigned int *samplingPeriodUs)
{
    return sampled(__func__, device, "utilization_encoder_percent", utilization, samplingPeriodUs);
}

nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned int *utilization,
                                             unsigned int *samplingPeriodUs)
{
    return sampled(__func__, device, "utilization_decoder_percent", utilization, samplingPeriodUs);
}

nvmlReturn_t nvmlDeviceGetJpgUtilization(nvmlDevice_t device, unsigned int *utilization,
                                         unsigned int *samplingPeriodUs)
{
    return sampled(__func__, device, "utilization_jpeg_percent", utilization, samplingPeriodUs);
}

nvmlReturn_t nvmlDeviceGetOfaUtilization(nvmlDevice_t device, unsigned int *utilization,
                                         unsigned int *samplingPeriodUs)
{
    return sampled(__func__, device, "utilization_ofa_percent", utilization, samplingPeriodUs);
}

/* ---- heat ---- */

static const char *sensor_key(nvmlTemperatureSensors_t sensor)
{
    return sensor == NVML_TEMPERATURE_GPU ? "temperature_c" : NULL;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensorType, unsigned int *temp)
{
    return read_u32(__func__, device, sensor_key(sensorType), temp);
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature)
{
    unsigned int degrees;
    if (temperature == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (temperature->version != nvmlTemperature_v1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlReturn_t result = read_u32(__func__, device, sensor_key(temperature->sensorType), &degrees);
    if (result == NVML_SUCCESS)
        temperature->temperature = (int)degrees;
    return result;
}

nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device, nvmlMarginTemperature_t *marginTempInfo)
{
    unsigned int degrees;
    if (marginTempInfo == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (marginTempInfo->version != nvmlMarginTemperature_v1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlReturn_t result = read_u32(__func__, device, "temperature_margin_c", &degrees);
    if (result == NVML_SUCCESS)
        marginTempInfo->marginTemperature = (int)degrees;
    return result;
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, nvmlTemperatureThresholds_t thresholdType,
                                               unsigned int *temp)
{
    static const char *const keys[] = {
        "threshold_shutdown_c",     "threshold_slowdown_c",         "threshold_memory_max_c",   "threshold_gpu_max_c",
        "threshold_acoustic_min_c", "threshold_acoustic_current_c", "threshold_acoustic_max_c", "threshold_gps_current_c",
    };
    return read_u32(__func__, device, KEY_AT(keys, thresholdType), temp);
}

nvmlReturn_t nvmlDeviceGetNumFans(nvmlDevice_t device, unsigned int *numFans)
{
    return read_u32(__func__, device, "num_fans", numFans);
}

nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned int *speed)
{
    return read_u32(__func__, device, "fan_percent", speed);
}

nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned int fan, unsigned int *speed)
{
    slot_t slot;
    unsigned int num_fans;
    nvmlReturn_t result = enter_device(__func__, device, &slot);
    if (result == NVML_SUCCESS)
        result = state_u32(slot, "num_fans", &num_fans);
    if (result != NVML_SUCCESS)
        return result;
    return fan >= num_fans || speed == NULL ? NVML_ERROR_INVALID_ARGUMENT : state_u32(slot, "fan_percent", speed);
}

/* ---- power ---- */

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *power)
{
    return read_u32(__func__, device, "power_mw", power);
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned int *limit)
{
    return read_u32(__func__, device, "power_limit_mw", limit);
}

nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device, unsigned int *defaultLimit)
{
    return read_u32(__func__, device, "power_limit_default_mw", defaultLimit);
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int *minLimit,
                                                          unsigned int *maxLimit)
{
    return read_u32_pair(__func__, device, "power_limit_min_mw", minLimit, "power_limit_max_mw", maxLimit);
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int *limit)
{
    slot_t slot;
    nvmlReturn_t result = enter_device(__func__, device, &slot);
    if (result != NVML_SUCCESS)
        return result;
    if (limit == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    result = state_u32(slot, "power_limit_enforced_mw", limit);
    return result == NVML_ERROR_NOT_SUPPORTED ? state_u32(slot, "power_limit_mw", limit) : result;
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *energy)
{
    return read_u64(__func__, device, "energy_total_mj", energy);
}

/* ---- the link ---- */

nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned int *currLinkGen)
{
    return read_u32(__func__, device, "pcie_generation", currLinkGen);
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int *maxLinkGen)
{
    return read_u32(__func__, device, "pcie_generation_max", maxLinkGen);
}

nvmlReturn_t nvmlDeviceGetGpuMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int *maxLinkGenDevice)
{
    return read_u32(__func__, device, "pcie_generation_gpu_max", maxLinkGenDevice);
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int *currLinkWidth)
{
    return read_u32(__func__, device, "pcie_width", currLinkWidth);
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned int *maxLinkWidth)
{
    return read_u32(__func__, device, "pcie_width_max", maxLinkWidth);
}

nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned int *value)
{
    return read_u32(__func__, device, "pcie_replays", value);
}

nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t counter, unsigned int *value)
{
    static const char *const keys[] = {"pcie_tx_kbps", "pcie_rx_kbps"};
    return read_u32(__func__, device, KEY_AT(keys, counter), value);
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, nvmlEnableState_t *isActive)
{
    slot_t slot;
    unsigned int num_links;
    unsigned long long down = 0; /* a file that names no broken link has none */
    nvmlReturn_t result = enter_device(__func__, device, &slot);
    if (result == NVML_SUCCESS)
        result = state_u32(slot, "num_nvlinks", &num_links);
    if (result != NVML_SUCCESS)
        return result;
    if (isActive == NULL || link >= num_links || link >= NVML_NVLINK_MAX_LINKS)
        return NVML_ERROR_INVALID_ARGUMENT;
    state_u64(slot, "nvlinks_down_mask", &down);
    *isActive = (down >> link & 1) != 0 ? NVML_FEATURE_DISABLED : NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
}
