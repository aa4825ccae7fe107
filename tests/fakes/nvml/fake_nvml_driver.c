/* The driver as a whole: versions, error texts, which cards there are and the handles to them. */
#include "fake_nvml.h"

#include <string.h>
#include <strings.h>

static const struct {
    nvmlReturn_t code;
    const char *text;
} errors[] = {
    {NVML_SUCCESS, "Success"},
    {NVML_ERROR_UNINITIALIZED, "Uninitialized"},
    {NVML_ERROR_INVALID_ARGUMENT, "Invalid Argument"},
    {NVML_ERROR_NOT_SUPPORTED, "Not Supported"},
    {NVML_ERROR_NO_PERMISSION, "Insufficient Permissions"},
    {NVML_ERROR_ALREADY_INITIALIZED, "Already Initialized"},
    {NVML_ERROR_NOT_FOUND, "Not Found"},
    {NVML_ERROR_INSUFFICIENT_SIZE, "Insufficient Size"},
    {NVML_ERROR_INSUFFICIENT_POWER, "Insufficient External Power"},
    {NVML_ERROR_DRIVER_NOT_LOADED, "Driver Not Loaded"},
    {NVML_ERROR_TIMEOUT, "Timeout"},
    {NVML_ERROR_IRQ_ISSUE, "Interrupt Request Issue"},
    {NVML_ERROR_LIBRARY_NOT_FOUND, "NVML Shared Library Not Found"},
    {NVML_ERROR_FUNCTION_NOT_FOUND, "Function Not Found"},
    {NVML_ERROR_CORRUPTED_INFOROM, "Corrupted infoROM"},
    {NVML_ERROR_GPU_IS_LOST, "GPU is lost"},
    {NVML_ERROR_RESET_REQUIRED, "GPU requires reset"},
    {NVML_ERROR_OPERATING_SYSTEM, "Operating System Error"},
    {NVML_ERROR_LIB_RM_VERSION_MISMATCH, "Driver/library version mismatch"},
    {NVML_ERROR_IN_USE, "In use by another client"},
    {NVML_ERROR_MEMORY, "Insufficient Memory"},
    {NVML_ERROR_NO_DATA, "No data"},
    {NVML_ERROR_ARGUMENT_VERSION_MISMATCH, "Version mismatch"},
    {NVML_ERROR_DEPRECATED, "Deprecated"},
    {NVML_ERROR_NOT_READY, "Not ready"},
    {NVML_ERROR_GPU_NOT_FOUND, "GPU not found"},
    {NVML_ERROR_INVALID_STATE, "Invalid state"},
};

const char *nvmlErrorString(nvmlReturn_t result)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].code == result)
            return errors[i].text;
    return "Unknown Error";
}

static nvmlReturn_t enter_system(const char *call)
{
    nvmlReturn_t result = enter_library();
    return result == NVML_SUCCESS ? apply_faults(call, NO_GPU) : result;
}

static nvmlReturn_t driver_text(const char *call, const char *key, char *out, unsigned int size)
{
    nvmlReturn_t result = enter_system(call);
    if (result != NVML_SUCCESS)
        return result;
    return out == NULL ? NVML_ERROR_INVALID_ARGUMENT : state_text(NO_GPU, key, out, size);
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    return driver_text(__func__, "driver", version, length);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    return driver_text(__func__, "nvml", version, length);
}

static nvmlReturn_t cuda_version(const char *call, int *version)
{
    unsigned int number;
    nvmlReturn_t result = enter_system(call);
    if (result != NVML_SUCCESS)
        return result;
    if (version == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    result = state_u32(NO_GPU, "cuda", &number);
    if (result == NVML_SUCCESS)
        *version = (int)number;
    return result;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *cudaDriverVersion)
{
    return cuda_version(__func__, cudaDriverVersion);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *cudaDriverVersion)
{
    return cuda_version(__func__, cudaDriverVersion);
}

/* ---- the cards ---- */

/* The cards that the driver lists: those of the file, less what "fault count" holds back. */
static unsigned int listed_gpus(slot_t slots[MAX_GPUS])
{
    unsigned long long limit;
    unsigned int count = state_gpus(slots);
    if (state_fault(ACTION_COUNT, NULL, NO_GPU, &limit) && limit < count)
        return (unsigned int)limit;
    return count;
}

static nvmlReturn_t count_gpus(const char *call, unsigned int *count)
{
    slot_t slots[MAX_GPUS];
    nvmlReturn_t result = enter_system(call);
    if (result != NVML_SUCCESS)
        return result;
    if (count == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = listed_gpus(slots);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *deviceCount)
{
    return count_gpus(__func__, deviceCount);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *deviceCount)
{
    return count_gpus(__func__, deviceCount);
}

/* A card is attached when its handle is asked for, so that is where a bad one fails first. */
static nvmlReturn_t attach(const char *call, slot_t slot, nvmlDevice_t *device)
{
    nvmlReturn_t result = apply_faults(call, slot);
    if (result == NVML_SUCCESS)
        result = apply_faults("handle", slot);
    if (result == NVML_SUCCESS)
        *device = device_of(slot);
    return result;
}

static nvmlReturn_t handle_by_index(const char *call, unsigned int index, nvmlDevice_t *device)
{
    slot_t slots[MAX_GPUS];
    nvmlReturn_t result = enter_library();
    if (result != NVML_SUCCESS)
        return result;
    if (device == NULL || index >= listed_gpus(slots))
        return NVML_ERROR_INVALID_ARGUMENT;
    return attach(call, slots[index], device);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
    return handle_by_index(__func__, index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    return handle_by_index(__func__, index, device);
}

/* Some callers write the domain with four digits, others with eight. */
static bool is_same_address(const char *left, const char *right)
{
    size_t left_length = strlen(left), right_length = strlen(right);
    if (left_length > right_length)
        return left_length == right_length + 4 && strncmp(left, "0000", 4) == 0 && strcasecmp(left + 4, right) == 0;
    if (right_length > left_length)
        return is_same_address(right, left);
    return strcasecmp(left, right) == 0;
}

static nvmlReturn_t handle_by_text(const char *call, const char *key, const char *wanted, nvmlDevice_t *device)
{
    slot_t slots[MAX_GPUS];
    nvmlReturn_t result = enter_library();
    if (result != NVML_SUCCESS)
        return result;
    if (wanted == NULL || device == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned int i = 0, count = listed_gpus(slots); i < count; i++) {
        char text[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
        if (state_text(slots[i], key, text, sizeof text) == NVML_SUCCESS && is_same_address(text, wanted))
            return attach(call, slots[i], device);
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    return handle_by_text(__func__, "uuid", uuid, device);
}

nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
    return handle_by_text(__func__, "serial", serial, device);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *pciBusId, nvmlDevice_t *device)
{
    return handle_by_text(__func__, "pci_bus_id", pciBusId, device);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *pciBusId, nvmlDevice_t *device)
{
    return handle_by_text(__func__, "pci_bus_id", pciBusId, device);
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    slot_t slot, slots[MAX_GPUS];
    nvmlReturn_t result = enter_device(__func__, device, &slot);
    if (result != NVML_SUCCESS)
        return result;
    if (index == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned int i = 0, count = listed_gpus(slots); i < count; i++) {
        if (slots[i] == slot) {
            *index = i;
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_GPU_IS_LOST;
}
