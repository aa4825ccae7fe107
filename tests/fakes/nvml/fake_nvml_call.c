/* What every call goes through before it answers: is the library up, is the card there, what fault is asked for. */
#include "fake_nvml.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define POLL_MS 20

struct nvmlDevice_st {
    char unused;
};

/* A handle is an address in here: it stays with its card whatever becomes of the others. */
static struct nvmlDevice_st devices[MAX_GPUS];
static atomic_uint num_inits;

nvmlDevice_t device_of(slot_t slot)
{
    return &devices[slot];
}

static bool slot_of(nvmlDevice_t device, slot_t *slot)
{
    for (slot_t at = 0; at < MAX_GPUS; at++) {
        if (device == &devices[at]) {
            *slot = at;
            return true;
        }
    }
    return false;
}

void sleep_ms(unsigned long long duration_ms)
{
    struct timespec left = {(time_t)(duration_ms / 1000), (long)(duration_ms % 1000) * 1000000L};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

static void wait_while(enum action action, const char *subject, slot_t slot)
{
    while (state_fault(action, subject, slot, NULL)) {
        sleep_ms(POLL_MS);
        state_refresh();
    }
}

/* ---- a call in uninterruptible sleep: whatever would end the process waits until the call is over ---- */

static const int held_signals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
#define NUM_HELD (sizeof held_signals / sizeof held_signals[0])
static volatile sig_atomic_t is_pending[NUM_HELD];
static pthread_mutex_t hold_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int num_held_calls;
static struct sigaction before_hold[NUM_HELD];

static void signal_note(int number)
{
    for (size_t i = 0; i < NUM_HELD; i++)
        if (held_signals[i] == number)
            is_pending[i] = 1;
}

static void signals_hold(void)
{
    struct sigaction note = {.sa_handler = signal_note, .sa_flags = SA_RESTART};
    sigemptyset(&note.sa_mask);
    pthread_mutex_lock(&hold_lock);
    if (num_held_calls++ == 0)
        for (size_t i = 0; i < NUM_HELD; i++)
            sigaction(held_signals[i], &note, &before_hold[i]);
    pthread_mutex_unlock(&hold_lock);
}

static void signals_let_go(void)
{
    pthread_mutex_lock(&hold_lock);
    if (--num_held_calls == 0) {
        for (size_t i = 0; i < NUM_HELD; i++)
            sigaction(held_signals[i], &before_hold[i], NULL);
        for (size_t i = 0; i < NUM_HELD; i++) {
            if (is_pending[i])
                raise(held_signals[i]);
            is_pending[i] = 0;
        }
    }
    pthread_mutex_unlock(&hold_lock);
}

/* ---- entering a call ---- */

nvmlReturn_t apply_faults(const char *subject, slot_t slot)
{
    unsigned long long amount;
    if (state_fault(ACTION_LATENCY, subject, slot, &amount))
        sleep_ms(amount);
    wait_while(ACTION_HANG, subject, slot);
    if (state_fault(ACTION_HANG_HARD, subject, slot, NULL)) {
        signals_hold();
        wait_while(ACTION_HANG_HARD, subject, slot);
        signals_let_go();
    }
    return state_fault(ACTION_RETURN, subject, slot, &amount) ? (nvmlReturn_t)amount : NVML_SUCCESS;
}

nvmlReturn_t enter_library(void)
{
    if (atomic_load(&num_inits) == 0)
        return NVML_ERROR_UNINITIALIZED;
    return state_refresh() == STATE_READY ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

nvmlReturn_t enter_device(const char *call, nvmlDevice_t device, slot_t *slot)
{
    nvmlReturn_t result = enter_library();
    if (result != NVML_SUCCESS)
        return result;
    if (!slot_of(device, slot))
        return NVML_ERROR_INVALID_ARGUMENT;
    result = apply_faults(call, *slot);
    if (result != NVML_SUCCESS)
        return result;
    if (!state_has_gpu(*slot) || state_fault(ACTION_LOST, NULL, *slot, NULL))
        return NVML_ERROR_GPU_IS_LOST;
    return NVML_SUCCESS;
}

/* ---- up and down ---- */

static nvmlReturn_t initialize(const char *call)
{
    switch (state_refresh()) {
    case STATE_ABSENT:
        return NVML_ERROR_DRIVER_NOT_LOADED;
    case STATE_BROKEN:
        return NVML_ERROR_UNKNOWN;
    case STATE_READY:
        break;
    }
    nvmlReturn_t result = apply_faults("init", NO_GPU);
    if (result == NVML_SUCCESS)
        result = apply_faults(call, NO_GPU);
    if (result == NVML_SUCCESS)
        atomic_fetch_add(&num_inits, 1);
    return result;
}

nvmlReturn_t nvmlInit(void)
{
    return initialize(__func__);
}

nvmlReturn_t nvmlInit_v2(void)
{
    return initialize(__func__);
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    (void)flags; /* they say only how hard to look for cards */
    return initialize(__func__);
}

nvmlReturn_t nvmlShutdown(void)
{
    nvmlReturn_t result = apply_faults(__func__, NO_GPU);
    if (result != NVML_SUCCESS)
        return result;
    unsigned int count = atomic_load(&num_inits);
    while (count != 0 && !atomic_compare_exchange_weak(&num_inits, &count, count - 1))
        continue;
    return count == 0 ? NVML_ERROR_UNINITIALIZED : NVML_SUCCESS;
}

/* ---- whole calls that answer with one key ---- */

nvmlReturn_t read_u32(const char *call, nvmlDevice_t device, const char *key, unsigned int *out)
{
    slot_t slot;
    nvmlReturn_t result = enter_device(call, device, &slot);
    if (result != NVML_SUCCESS)
        return result;
    return key == NULL || out == NULL ? NVML_ERROR_INVALID_ARGUMENT : state_u32(slot, key, out);
}

nvmlReturn_t read_u64(const char *call, nvmlDevice_t device, const char *key, unsigned long long *out)
{
    slot_t slot;
    nvmlReturn_t result = enter_device(call, device, &slot);
    if (result != NVML_SUCCESS)
        return result;
    return key == NULL || out == NULL ? NVML_ERROR_INVALID_ARGUMENT : state_u64(slot, key, out);
}

nvmlReturn_t read_text(const char *call, nvmlDevice_t device, const char *key, char *out, unsigned int size)
{
    slot_t slot;
    nvmlReturn_t result = enter_device(call, device, &slot);
    if (result != NVML_SUCCESS)
        return result;
    return out == NULL ? NVML_ERROR_INVALID_ARGUMENT : state_text(slot, key, out, size);
}

nvmlReturn_t read_u32_pair(const char *call, nvmlDevice_t device, const char *first_key, unsigned int *first,
                           const char *second_key, unsigned int *second)
{
    slot_t slot;
    nvmlReturn_t result = enter_device(call, device, &slot);
    if (result != NVML_SUCCESS)
        return result;
    if (first == NULL || second == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    result = state_u32(slot, first_key, first);
    return result == NVML_SUCCESS ? state_u32(slot, second_key, second) : result;
}
