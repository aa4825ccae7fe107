/* Events: an Xid in the state file reaches each event set that watches its card, once. */
#include "fake_nvml.h"

#include <stdlib.h>
#include <time.h>

#define POLL_MS 10

struct nvmlEventSet_st {
    struct {
        unsigned long long types;
        unsigned long long sequence; /* of the last event delivered, or that was there before the watch began */
    } watches[MAX_GPUS];
};

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    nvmlReturn_t result = enter_library();
    if (result == NVML_SUCCESS)
        result = apply_faults(__func__, NO_GPU);
    if (result != NVML_SUCCESS)
        return result;
    if (set == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    *set = calloc(1, sizeof **set);
    return *set == NULL ? NVML_ERROR_MEMORY : NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    if (set == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    free(set);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *eventTypes)
{
    return read_u64(__func__, device, "event_types", eventTypes);
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long eventTypes, nvmlEventSet_t set)
{
    slot_t slot;
    unsigned long long supported;
    nvmlReturn_t result = enter_device(__func__, device, &slot);
    if (result == NVML_SUCCESS)
        result = state_u64(slot, "event_types", &supported);
    if (result != NVML_SUCCESS)
        return result;
    if (set == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if ((eventTypes & ~supported) != 0)
        return NVML_ERROR_NOT_SUPPORTED;
    if (set->watches[slot].types == 0)
        set->watches[slot].sequence = state_last_xid(slot);
    set->watches[slot].types |= eventTypes;
    return NVML_SUCCESS;
}

/* The oldest Xid that the set has not delivered; which of two came first is what their sequence says. */
static bool take_xid(nvmlEventSet_t set, struct xid *oldest)
{
    bool is_found = false;
    for (slot_t slot = 0; slot < MAX_GPUS; slot++) {
        struct xid xid;
        if ((set->watches[slot].types & nvmlEventTypeXidCriticalError) == 0 ||
            !state_xid_after(slot, set->watches[slot].sequence, &xid) ||
            (is_found && xid.sequence >= oldest->sequence))
            continue;
        *oldest = xid;
        is_found = true;
    }
    if (is_found)
        set->watches[oldest->slot].sequence = oldest->sequence;
    return is_found;
}

static bool has_lost_gpu(nvmlEventSet_t set)
{
    for (slot_t slot = 0; slot < MAX_GPUS; slot++)
        if (set->watches[slot].types != 0 && (!state_has_gpu(slot) || state_fault(ACTION_LOST, NULL, slot, NULL)))
            return true;
    return false;
}

static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static nvmlReturn_t wait_for_event(const char *call, nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
    struct xid xid;
    const long long ends_at = now_ms() + timeout_ms;
    nvmlReturn_t result = enter_library();
    if (result == NVML_SUCCESS)
        result = apply_faults(call, NO_GPU);
    if (result != NVML_SUCCESS)
        return result;
    if (set == NULL || data == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    while (!take_xid(set, &xid)) {
        if (has_lost_gpu(set))
            return NVML_ERROR_GPU_IS_LOST;
        if (now_ms() >= ends_at)
            return NVML_ERROR_TIMEOUT;
        sleep_ms(POLL_MS);
        result = enter_library();
        if (result != NVML_SUCCESS)
            return result;
    }
    *data = (nvmlEventData_t){.device = device_of(xid.slot),
                              .eventType = nvmlEventTypeXidCriticalError,
                              .eventData = xid.code,
                              .gpuInstanceId = 0xFFFFFFFF,
                              .computeInstanceId = 0xFFFFFFFF};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeoutms)
{
    return wait_for_event(__func__, set, data, timeoutms);
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeoutms)
{
    return wait_for_event(__func__, set, data, timeoutms);
}
