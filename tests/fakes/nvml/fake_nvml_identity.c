/* What a card is: names, numbers, its place on the bus, and the modes it has been put in. */
#include "fake_nvml.h"

#include <stdio.h>

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    if (is_mig_handle(device))
        return mig_name(__func__, device, name, length);
    return read_text(__func__, device, "name", name, length);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    if (is_mig_handle(device))
        return mig_uuid(__func__, device, uuid, length);
    return read_text(__func__, device, "uuid", uuid, length);
}

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned int length)
{
    return read_text(__func__, device, "serial", serial, length);
}

nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *version, unsigned int length)
{
    return read_text(__func__, device, "vbios", version, length);
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minorNumber)
{
    return read_u32(__func__, device, "minor_number", minorNumber);
}

nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, nvmlBrandType_t *type)
{
    unsigned int brand;
    if (type == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = read_u32(__func__, device, "brand", &brand);
    if (result == NVML_SUCCESS)
        *type = (nvmlBrandType_t)brand;
    return result;
}

nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t *arch)
{
    return read_u32(__func__, device, "architecture", arch);
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    char text[32];
    if (major == NULL || minor == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = read_text(__func__, device, "compute_capability", text, sizeof text);
    if (result == NVML_SUCCESS && sscanf(text, "%d.%d", major, minor) != 2)
        return NVML_ERROR_UNKNOWN;
    return result;
}

static nvmlReturn_t pci_info(const char *call, nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    slot_t slot;
    char address[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];
    nvmlReturn_t result = enter_device(call, device, &slot);
    if (result != NVML_SUCCESS)
        return result;
    if (pci == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    result = state_text(slot, "pci_bus_id", address, sizeof address);
    if (result != NVML_SUCCESS)
        return result;
    *pci = (nvmlPciInfo_t){0};
    if (sscanf(address, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device) != 3)
        return NVML_ERROR_UNKNOWN;
    snprintf(pci->busId, sizeof pci->busId, NVML_DEVICE_PCI_BUS_ID_FMT, NVML_DEVICE_PCI_BUS_ID_FMT_ARGS(pci));
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, NVML_DEVICE_PCI_BUS_ID_LEGACY_FMT, pci->domain & 0xFFFF,
             pci->bus & 0xFF, pci->device & 0xFF);
    /* The ids stay 0 where the file is silent, as they do in a card that gives none. */
    state_u32(slot, "pci_device_id", &pci->pciDeviceId);
    state_u32(slot, "pci_subsystem_id", &pci->pciSubSystemId);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    return pci_info(__func__, device, pci);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    return pci_info(__func__, device, pci);
}

/* ---- modes ---- */

static nvmlReturn_t read_mode(const char *call, nvmlDevice_t device, const char *key, nvmlEnableState_t *out)
{
    unsigned int mode;
    if (out == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = read_u32(call, device, key, &mode);
    if (result == NVML_SUCCESS)
        *out = (nvmlEnableState_t)mode;
    return result;
}

nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t *mode)
{
    return read_mode(__func__, device, "persistence_mode", mode);
}

nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t device, nvmlEnableState_t *display)
{
    return read_mode(__func__, device, "display_mode", display);
}

nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t device, nvmlEnableState_t *isActive)
{
    return read_mode(__func__, device, "display_active", isActive);
}

nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t *mode)
{
    unsigned int number;
    if (mode == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = read_u32(__func__, device, "compute_mode", &number);
    if (result == NVML_SUCCESS)
        *mode = (nvmlComputeMode_t)number;
    return result;
}

nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, nvmlGpuVirtualizationMode_t *pVirtualMode)
{
    unsigned int number;
    if (pVirtualMode == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = read_u32(__func__, device, "virtualization_mode", &number);
    if (result == NVML_SUCCESS)
        *pVirtualMode = (nvmlGpuVirtualizationMode_t)number;
    return result;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *currentMode, unsigned int *pendingMode)
{
    return read_u32_pair(__func__, device, "mig_mode", currentMode, "mig_mode_pending", pendingMode);
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
    return read_u32(__func__, device, "mig_devices_max", count);
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *isMigDevice)
{
    slot_t slot;
    struct mig mig;
    bool is_mig = is_mig_handle(device);
    nvmlReturn_t result =
        is_mig ? enter_mig(__func__, device, &slot, &mig) : enter_device(__func__, device, &slot);
    if (result != NVML_SUCCESS)
        return result;
    if (isMigDevice == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    *isMigDevice = is_mig;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAddressingMode(nvmlDevice_t device, nvmlDeviceAddressingMode_t *mode)
{
    if (mode == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (mode->version != nvmlDeviceAddressingMode_v1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return read_u32(__func__, device, "addressing_mode", &mode->value);
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *gpuFabricInfo)
{
    unsigned int state, status;
    if (gpuFabricInfo == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    *gpuFabricInfo = (nvmlGpuFabricInfo_t){0};
    nvmlReturn_t result = read_u32_pair(__func__, device, "fabric_state", &state, "fabric_status", &status);
    if (result == NVML_SUCCESS) {
        gpuFabricInfo->state = (nvmlGpuFabricState_t)state;
        gpuFabricInfo->status = (nvmlReturn_t)status;
    }
    return result;
}
