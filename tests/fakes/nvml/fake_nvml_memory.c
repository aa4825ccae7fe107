/* A card's memory: how much is used and by whom, and what has gone wrong in it. */
#include "fake_nvml.h"

#include <string.h>

struct usage {
    unsigned long long total, reserved, used, free;
};

static nvmlReturn_t usage_of(const char *call, nvmlDevice_t device, struct usage *usage)
{
    slot_t slot;
    nvmlReturn_t result = enter_device(call, device, &slot);
    if (result == NVML_SUCCESS)
        result = state_u64(slot, "memory_total_bytes", &usage->total);
    if (result == NVML_SUCCESS)
        result = state_u64(slot, "memory_reserved_bytes", &usage->reserved);
    if (result == NVML_SUCCESS)
        result = state_u64(slot, "memory_used_bytes", &usage->used);
    if (result != NVML_SUCCESS)
        return result;
    result = state_u64(slot, "memory_free_bytes", &usage->free);
    if (result != NVML_ERROR_NOT_SUPPORTED)
        return result;
    unsigned long long taken = usage->reserved + usage->used;
    usage->free = taken < usage->total ? usage->total - taken : 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    struct usage usage;
    if (is_mig_handle(device)) {
        slot_t slot;
        struct mig mig;
        nvmlReturn_t entered = enter_mig(__func__, device, &slot, &mig);
        if (entered != NVML_SUCCESS)
            return entered;
        usage = (struct usage){mig.total_bytes, 0, mig.used_bytes, mig.total_bytes - mig.used_bytes};
    } else {
        nvmlReturn_t result = usage_of(__func__, device, &usage);
        if (result != NVML_SUCCESS)
            return result;
    }
    if (memory == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    /* The first version knows no reserved memory and counts it as used. */
    *memory = (nvmlMemory_t){.total = usage.total, .free = usage.free, .used = usage.used + usage.reserved};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    struct usage usage;
    nvmlReturn_t result = usage_of(__func__, device, &usage);
    if (result != NVML_SUCCESS)
        return result;
    if (memory == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (memory->version != nvmlMemory_v2)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    memory->total = usage.total;
    memory->reserved = usage.reserved;
    memory->free = usage.free;
    memory->used = usage.used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *bar1Memory)
{
    slot_t slot;
    nvmlReturn_t result = enter_device(__func__, device, &slot);
    if (result != NVML_SUCCESS)
        return result;
    if (bar1Memory == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    result = state_u64(slot, "bar1_total_bytes", &bar1Memory->bar1Total);
    if (result == NVML_SUCCESS)
        result = state_u64(slot, "bar1_used_bytes", &bar1Memory->bar1Used);
    if (result == NVML_SUCCESS)
        bar1Memory->bar1Free = bar1Memory->bar1Total - bar1Memory->bar1Used;
    return result;
}

/* ---- processes ---- */

#define MAX_PROCESSES 256

/* The list asked for, or its length and NVML_ERROR_INSUFFICIENT_SIZE where it does not fit. */
static nvmlReturn_t list_processes(const char *call, nvmlDevice_t device, const char *kind, unsigned int *count,
                                   struct process *found, bool has_room)
{
    slot_t slot;
    struct mig mig;
    unsigned int ignored;
    const bool is_slice = is_mig_handle(device);
    nvmlReturn_t result = is_slice ? enter_mig(call, device, &slot, &mig) : enter_device(call, device, &slot);
    if (result == NVML_SUCCESS && !is_slice) {
        result = state_u32(slot, "mig_process_list", &ignored);
        result = result == NVML_ERROR_NOT_SUPPORTED ? NVML_SUCCESS : result;
    }
    if (result != NVML_SUCCESS)
        return result;
    if (count == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    unsigned int room = has_room ? *count : 0;
    *count = state_processes(slot, kind, is_slice ? &mig : NULL, found, MAX_PROCESSES);
    if (*count > MAX_PROCESSES)
        *count = MAX_PROCESSES;
    return *count > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

static nvmlReturn_t processes_v1(const char *call, nvmlDevice_t device, const char *kind, unsigned int *count,
                                 nvmlProcessInfo_v1_t *infos)
{
    struct process found[MAX_PROCESSES];
    nvmlReturn_t result = list_processes(call, device, kind, count, found, infos != NULL);
    for (unsigned int i = 0; result == NVML_SUCCESS && i < *count; i++)
        infos[i] = (nvmlProcessInfo_v1_t){.pid = found[i].pid, .usedGpuMemory = found[i].used_bytes};
    return result;
}

static nvmlReturn_t processes_v2(const char *call, nvmlDevice_t device, const char *kind, unsigned int *count,
                                 nvmlProcessInfo_v2_t *infos)
{
    struct process found[MAX_PROCESSES];
    nvmlReturn_t result = list_processes(call, device, kind, count, found, infos != NULL);
    for (unsigned int i = 0; result == NVML_SUCCESS && i < *count; i++)
        infos[i] = (nvmlProcessInfo_v2_t){.pid = found[i].pid,
                                          .usedGpuMemory = found[i].used_bytes,
                                          .gpuInstanceId = found[i].gpu_instance,
                                          .computeInstanceId = found[i].compute_instance};
    return result;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int *infoCount,
                                                  nvmlProcessInfo_v1_t *infos)
{
    return processes_v1(__func__, device, "compute", infoCount, infos);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *infoCount,
                                                     nvmlProcessInfo_v2_t *infos)
{
    return processes_v2(__func__, device, "compute", infoCount, infos);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *infoCount,
                                                     nvmlProcessInfo_t *infos)
{
    return processes_v2(__func__, device, "compute", infoCount, infos);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned int *infoCount,
                                                   nvmlProcessInfo_v1_t *infos)
{
    return processes_v1(__func__, device, "graphics", infoCount, infos);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned int *infoCount,
                                                      nvmlProcessInfo_v2_t *infos)
{
    return processes_v2(__func__, device, "graphics", infoCount, infos);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *infoCount,
                                                      nvmlProcessInfo_t *infos)
{
    return processes_v2(__func__, device, "graphics", infoCount, infos);
}

/* ---- ECC ---- */

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current, nvmlEnableState_t *pending)
{
    unsigned int now, then;
    if (current == NULL || pending == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = read_u32_pair(__func__, device, "ecc_mode", &now, "ecc_mode_pending", &then);
    if (result == NVML_SUCCESS) {
        *current = (nvmlEnableState_t)now;
        *pending = (nvmlEnableState_t)then;
    }
    return result;
}

enum ecc_memory { ECC_SRAM, ECC_DRAM };

static const char *ecc_key(enum ecc_memory memory, nvmlMemoryErrorType_t error, nvmlEccCounterType_t counter)
{
    static const char *const keys[2][NVML_MEMORY_ERROR_TYPE_COUNT][NVML_ECC_COUNTER_TYPE_COUNT] = {
        {{"ecc_sram_corrected_volatile", "ecc_sram_corrected_aggregate"},
         {"ecc_sram_uncorrected_volatile", "ecc_sram_uncorrected_aggregate"}},
        {{"ecc_dram_corrected_volatile", "ecc_dram_corrected_aggregate"},
         {"ecc_dram_uncorrected_volatile", "ecc_dram_uncorrected_aggregate"}},
    };
    if (error >= NVML_MEMORY_ERROR_TYPE_COUNT || counter >= NVML_ECC_COUNTER_TYPE_COUNT)
        return NULL;
    return keys[memory][error][counter];
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t errorType,
                                         nvmlEccCounterType_t counterType, unsigned long long *eccCounts)
{
    slot_t slot;
    unsigned long long sram, dram;
    nvmlReturn_t result = enter_device(__func__, device, &slot);
    if (result != NVML_SUCCESS)
        return result;
    if (eccCounts == NULL || ecc_key(ECC_SRAM, errorType, counterType) == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    result = state_u64(slot, ecc_key(ECC_SRAM, errorType, counterType), &sram);
    if (result == NVML_SUCCESS)
        result = state_u64(slot, ecc_key(ECC_DRAM, errorType, counterType), &dram);
    if (result == NVML_SUCCESS)
        *eccCounts = sram + dram;
    return result;
}

nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t errorType,
                                             nvmlEccCounterType_t counterType, nvmlMemoryLocation_t locationType,
                                             unsigned long long *count)
{
    slot_t slot;
    switch (locationType) {
    case NVML_MEMORY_LOCATION_SRAM:
        return read_u64(__func__, device, ecc_key(ECC_SRAM, errorType, counterType), count);
    case NVML_MEMORY_LOCATION_DRAM:
        return read_u64(__func__, device, ecc_key(ECC_DRAM, errorType, counterType), count);
    default: /* the caches are counted one by one on cards before Turing only */
        break;
    }
    nvmlReturn_t result = enter_device(__func__, device, &slot);
    return result == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : result;
}

nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device, nvmlEccSramErrorStatus_t *status)
{
    slot_t slot;
    unsigned int is_exceeded;
    nvmlReturn_t result = enter_device(__func__, device, &slot);
    if (result != NVML_SUCCESS)
        return result;
    if (status == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (status->version != nvmlEccSramErrorStatus_v1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    result = state_u32(slot, "ecc_sram_threshold_exceeded", &is_exceeded);
    if (result != NVML_SUCCESS)
        return result;
    const unsigned int version = status->version;
    memset(status, 0, sizeof *status);
    status->version = version;
    result = state_u64(slot, ecc_key(ECC_SRAM, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_VOLATILE_ECC),
                       &status->volatileCor);
    if (result == NVML_SUCCESS)
        result = state_u64(slot, ecc_key(ECC_SRAM, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC),
                           &status->volatileUncParity);
    if (result == NVML_SUCCESS)
        status->bThresholdExceeded = is_exceeded;
    return result;
}

/* ---- pages and rows given up ---- */

static nvmlReturn_t retired_pages(const char *call, nvmlDevice_t device, nvmlPageRetirementCause_t cause,
                                  unsigned int *count, unsigned long long *addresses, unsigned long long *timestamps)
{
    static const char *const keys[] = {"retired_pages_single_bit", "retired_pages_double_bit"};
    unsigned int num_pages;
    if (count == NULL || cause >= NVML_PAGE_RETIREMENT_CAUSE_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = read_u32(call, device, keys[cause], &num_pages);
    if (result != NVML_SUCCESS)
        return result;
    unsigned int room = addresses == NULL ? 0 : *count;
    *count = num_pages;
    if (num_pages > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    /* Addresses only have to differ, and times to be in order. */
    for (unsigned int i = 0; i < num_pages; i++) {
        addresses[i] = ((unsigned long long)cause << 32 | i) << 12;
        if (timestamps != NULL)
            timestamps[i] = 1700000000000000ULL + i;
    }
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, nvmlPageRetirementCause_t cause, unsigned int *pageCount,
                                       unsigned long long *addresses)
{
    return retired_pages(__func__, device, cause, pageCount, addresses, NULL);
}

nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device, nvmlPageRetirementCause_t cause,
                                          unsigned int *pageCount, unsigned long long *addresses,
                                          unsigned long long *timestamps)
{
    return retired_pages(__func__, device, cause, pageCount, addresses, timestamps);
}

nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device, nvmlEnableState_t *isPending)
{
    unsigned int number;
    if (isPending == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = read_u32(__func__, device, "retired_pages_pending", &number);
    if (result == NVML_SUCCESS)
        *isPending = (nvmlEnableState_t)number;
    return result;
}

static nvmlReturn_t read_all(nvmlReturn_t entered, slot_t slot, const char *const *keys, unsigned int *const *outs,
                             size_t count)
{
    for (size_t i = 0; entered == NVML_SUCCESS && i < count; i++)
        entered = outs[i] == NULL ? NVML_ERROR_INVALID_ARGUMENT : state_u32(slot, keys[i], outs[i]);
    return entered;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrRows, unsigned int *uncRows,
                                       unsigned int *isPending, unsigned int *failureOccurred)
{
    static const char *const keys[] = {"remapped_rows_correctable", "remapped_rows_uncorrectable",
                                       "remapped_rows_pending", "remapped_rows_failed"};
    unsigned int *const outs[] = {corrRows, uncRows, isPending, failureOccurred};
    slot_t slot = NO_GPU;
    nvmlReturn_t entered = enter_device(__func__, device, &slot);
    return read_all(entered, slot, keys, outs, 4);
}

nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device, nvmlRowRemapperHistogramValues_t *values)
{
    static const char *const keys[] = {"remap_banks_max", "remap_banks_high", "remap_banks_partial",
                                       "remap_banks_low", "remap_banks_none"};
    slot_t slot = NO_GPU;
    if (values == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    unsigned int *const outs[] = {&values->max, &values->high, &values->partial, &values->low, &values->none};
    nvmlReturn_t entered = enter_device(__func__, device, &slot);
    return read_all(entered, slot, keys, outs, 5);
}
