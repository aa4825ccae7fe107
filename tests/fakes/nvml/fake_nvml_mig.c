/* Slices of cards: MIG devices have handles of their own, which few calls understand. */
#include "fake_nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As with cards, a handle is an address in here. */
static char handles[MAX_GPUS][MAX_MIGS];

/* " busy GRAPHICS MULTIPROCESSORS BANDWIDTH", each in percent, or "none" where it is not told */
static bool activity_parse(const char *text, struct mig *out)
{
    char words[NUM_ACTIVITIES][16];
    int end = 0;
    if (sscanf(text, " busy %15s %15s %15s%n", words[0], words[1], words[2], &end) != NUM_ACTIVITIES ||
        text[end] != '\0')
        return false;
    for (size_t i = 0; i < NUM_ACTIVITIES; i++) {
        char *rest = words[i];
        out->is_told[i] = strcmp(words[i], "none") != 0;
        if (!out->is_told[i])
            continue;
        out->activity[i] = strtod(words[i], &rest);
        if (rest == words[i] || *rest != '\0')
            return false;
    }
    out->has_activity = true;
    return true;
}

bool mig_parse(const char *value, struct mig *out)
{
    char total[32], used[32];
    int end = 0, more = 0;
    *out = (struct mig){0};
    if (sscanf(value, "%31s %u %u %31s %31s%n", out->profile, &out->gpu_instance, &out->compute_instance, total, used,
               &end) != 5 ||
        !number_parse(total, &out->total_bytes) || !number_parse(used, &out->used_bytes))
        return false;
    if (sscanf(value + end, " %u%n", &out->num_multiprocessors, &more) == 1)
        end += more;
    return value[end] == '\0' || activity_parse(value + end, out);
}

static bool place_of(nvmlDevice_t device, slot_t *slot, unsigned int *place)
{
    const char *first = &handles[0][0], *at = (const char *)device;
    if (at < first || at >= first + sizeof handles)
        return false;
    *slot = (slot_t)((size_t)(at - first) / MAX_MIGS);
    *place = (unsigned int)((size_t)(at - first) % MAX_MIGS) + 1;
    return true;
}

bool is_mig_handle(nvmlDevice_t device)
{
    slot_t slot;
    unsigned int place;
    return place_of(device, &slot, &place);
}

nvmlReturn_t enter_mig(const char *call, nvmlDevice_t device, slot_t *slot, struct mig *out)
{
    char value[128];
    unsigned int place;
    if (!place_of(device, slot, &place))
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = enter_device(call, device_of(*slot), slot);
    if (result == NVML_SUCCESS)
        result = state_mig(*slot, place, value, sizeof value);
    if (result == NVML_SUCCESS && !mig_parse(value, out))
        return NVML_ERROR_UNKNOWN;
    return result;
}

nvmlReturn_t mig_of_gpu_instance(slot_t slot, unsigned int gpu_instance, struct mig *out)
{
    unsigned int mode;
    char value[128];
    if (state_u32(slot, "mig_mode", &mode) != NVML_SUCCESS || mode == 0)
        return NVML_ERROR_NOT_FOUND;
    for (unsigned int place = 1; place <= MAX_MIGS; place++)
        if (state_mig(slot, place, value, sizeof value) == NVML_SUCCESS && mig_parse(value, out) &&
            out->gpu_instance == gpu_instance)
            return NVML_SUCCESS;
    return NVML_ERROR_NOT_FOUND;
}

static nvmlReturn_t print(char *out, size_t size, const char *text)
{
    if (out == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    return (size_t)snprintf(out, size, "%s", text) < size ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

nvmlReturn_t mig_name(const char *call, nvmlDevice_t device, char *out, size_t size)
{
    slot_t slot;
    struct mig mig;
    char card[64], text[128];
    nvmlReturn_t result = enter_mig(call, device, &slot, &mig);
    if (result == NVML_SUCCESS)
        result = state_text(slot, "name", card, sizeof card);
    if (result != NVML_SUCCESS)
        return result;
    snprintf(text, sizeof text, "%s MIG %s", card, mig.profile);
    return print(out, size, text);
}

/* "MIG-" and the card's own number, with the instances' in front of it. */
nvmlReturn_t mig_uuid(const char *call, nvmlDevice_t device, char *out, size_t size)
{
    slot_t slot;
    struct mig mig;
    char card[96], text[128];
    nvmlReturn_t result = enter_mig(call, device, &slot, &mig);
    if (result == NVML_SUCCESS)
        result = state_text(slot, "uuid", card, sizeof card);
    if (result != NVML_SUCCESS)
        return result;
    snprintf(text, sizeof text, "MIG-%04x%04x%s", mig.gpu_instance & 0xFFFF, mig.compute_instance & 0xFFFF,
             strlen(card) > 12 ? card + 12 : card);
    return print(out, size, text);
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *migDevice)
{
    slot_t slot;
    unsigned int mode;
    char value[128];
    nvmlReturn_t result = enter_device(__func__, device, &slot);
    if (result == NVML_SUCCESS)
        result = state_u32(slot, "mig_mode", &mode);
    if (result != NVML_SUCCESS)
        return result;
    if (migDevice == NULL || index >= MAX_MIGS)
        return NVML_ERROR_INVALID_ARGUMENT;
    result = mode == 0 ? NVML_ERROR_NOT_FOUND : state_mig(slot, index + 1, value, sizeof value);
    if (result == NVML_SUCCESS)
        *migDevice = (nvmlDevice_t)&handles[slot][index];
    return result;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id)
{
    slot_t slot;
    struct mig mig;
    nvmlReturn_t result = enter_mig(__func__, device, &slot, &mig);
    if (result == NVML_SUCCESS && id != NULL)
        *id = mig.gpu_instance;
    return result == NVML_SUCCESS && id == NULL ? NVML_ERROR_INVALID_ARGUMENT : result;
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id)
{
    slot_t slot;
    struct mig mig;
    nvmlReturn_t result = enter_mig(__func__, device, &slot, &mig);
    if (result == NVML_SUCCESS && id != NULL)
        *id = mig.compute_instance;
    return result == NVML_SUCCESS && id == NULL ? NVML_ERROR_INVALID_ARGUMENT : result;
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
    slot_t slot;
    struct mig mig;
    if (!is_mig_handle(device)) {
        nvmlReturn_t whole = enter_device(__func__, device, &slot);
        return whole == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : whole;
    }
    nvmlReturn_t result = enter_mig(__func__, device, &slot, &mig);
    if (result != NVML_SUCCESS)
        return result;
    if (attributes == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (mig.num_multiprocessors == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    *attributes = (nvmlDeviceAttributes_t){.multiprocessorCount = mig.num_multiprocessors,
                                           .memorySizeMB = mig.total_bytes >> 20};
    return NVML_SUCCESS;
}
