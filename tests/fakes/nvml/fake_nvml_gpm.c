/* GPM: samples of what slices do, counted, so that one that is never freed or freed twice is seen. */
#include "fake_nvml.h"

#include <pthread.h>
#include <stdio.h>

#define MAX_SAMPLES 256

struct nvmlGpmSample_st {
    bool is_allocated, is_taken;
    slot_t slot;
    unsigned int gpu_instance;
    struct mig mig; /* what the file said of the slice when the sample was taken */
};

static const unsigned int metrics[NUM_ACTIVITIES] = {NVML_GPM_METRIC_GRAPHICS_UTIL, NVML_GPM_METRIC_SM_UTIL,
                                                     NVML_GPM_METRIC_DRAM_BW_UTIL};
static struct nvmlGpmSample_st samples[MAX_SAMPLES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

unsigned int fake_nvml_num_samples(void)
{
    unsigned int count = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < MAX_SAMPLES; i++)
        count += samples[i].is_allocated;
    pthread_mutex_unlock(&lock);
    return count;
}

static bool is_sample(nvmlGpmSample_t sample)
{
    for (size_t i = 0; i < MAX_SAMPLES; i++)
        if (sample == &samples[i] && sample->is_allocated)
            return true;
    fprintf(stderr, "fake NVML: a sample that was never allocated, or is freed already\n");
    return false;
}

nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *gpmSample)
{
    nvmlReturn_t result = enter_library();
    if (result == NVML_SUCCESS)
        result = apply_faults(__func__, NO_GPU);
    if (result != NVML_SUCCESS)
        return result;
    if (gpmSample == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    result = NVML_ERROR_MEMORY;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < MAX_SAMPLES && result != NVML_SUCCESS; i++) {
        if (samples[i].is_allocated)
            continue;
        samples[i] = (struct nvmlGpmSample_st){.is_allocated = true};
        *gpmSample = &samples[i];
        result = NVML_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* After the library is shut down a sample cannot be freed any more, and stays counted. */
nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t gpmSample)
{
    nvmlReturn_t result = enter_library();
    if (result != NVML_SUCCESS)
        return result;
    pthread_mutex_lock(&lock);
    result = is_sample(gpmSample) ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        gpmSample->is_allocated = false;
    pthread_mutex_unlock(&lock);
    return result;
}

nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *gpmSupport)
{
    slot_t slot;
    nvmlReturn_t result = enter_device(__func__, device, &slot);
    if (result != NVML_SUCCESS)
        return result;
    if (gpmSupport == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (gpmSupport->version != NVML_GPM_SUPPORT_VERSION)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    gpmSupport->isSupportedDevice = 0;
    result = state_u32(slot, "gpm_supported", &gpmSupport->isSupportedDevice);
    return result == NVML_ERROR_NOT_SUPPORTED ? NVML_SUCCESS : result;
}

nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned int gpuInstanceId, nvmlGpmSample_t gpmSample)
{
    slot_t slot;
    struct mig mig;
    nvmlReturn_t result = enter_device(__func__, device, &slot);
    if (result == NVML_SUCCESS)
        result = mig_of_gpu_instance(slot, gpuInstanceId, &mig);
    if (result != NVML_SUCCESS)
        return result;
    if (!mig.has_activity)
        return NVML_ERROR_NOT_SUPPORTED;
    pthread_mutex_lock(&lock);
    result = is_sample(gpmSample) ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *gpmSample = (struct nvmlGpmSample_st){true, true, slot, gpuInstanceId, mig};
    pthread_mutex_unlock(&lock);
    return result;
}

static void answer(nvmlGpmMetric_t *metric, const struct mig *mig)
{
    metric->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    for (size_t i = 0; i < NUM_ACTIVITIES; i++) {
        if (metrics[i] != metric->metricId || !mig->is_told[i])
            continue;
        metric->nvmlReturn = NVML_SUCCESS;
        metric->value = mig->activity[i];
    }
}

/* Two samples of one slice, the older one first. The values are those of the file when the later was taken. */
nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *metricsGet)
{
    nvmlReturn_t result = enter_library();
    if (result == NVML_SUCCESS)
        result = apply_faults(__func__, NO_GPU);
    if (result != NVML_SUCCESS)
        return result;
    if (metricsGet == NULL || metricsGet->numMetrics > NVML_GPM_METRIC_MAX)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (metricsGet->version != NVML_GPM_METRICS_GET_VERSION)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlGpmSample_t first = metricsGet->sample1, second = metricsGet->sample2;
    pthread_mutex_lock(&lock);
    bool is_pair = is_sample(first) && is_sample(second) && first != second && first->is_taken && second->is_taken &&
                   first->slot == second->slot && first->gpu_instance == second->gpu_instance;
    for (unsigned int i = 0; is_pair && i < metricsGet->numMetrics; i++)
        answer(&metricsGet->metrics[i], &second->mig);
    pthread_mutex_unlock(&lock);
    return is_pair ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}
