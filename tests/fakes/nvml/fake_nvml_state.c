/* The state file as it stands: read again as soon as it is another one, answered under one lock. */
#include "fake_nvml.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_VARIABLE "GPUMESH_FAKE_NVML"
#define DEFAULT_PATH "/etc/fake-nvml/state"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct state current;
static enum readiness readiness = STATE_ABSENT;
static struct stat seen; /* of the file that current was made from */

static const char *state_path(void)
{
    static const char *path; /* asked once: the environment may not be read while others write it */
    if (path == NULL) {
        path = getenv(PATH_VARIABLE);
        path = path == NULL || *path == '\0' ? DEFAULT_PATH : strdup(path);
    }
    return path;
}

static bool is_same_file(const struct stat *left, const struct stat *right)
{
    return left->st_ino == right->st_ino && left->st_dev == right->st_dev && left->st_size == right->st_size &&
           left->st_mtim.tv_sec == right->st_mtim.tv_sec && left->st_mtim.tv_nsec == right->st_mtim.tv_nsec;
}

/* The file's text and what it was when read, or NULL. */
static char *file_read(const char *path, struct stat *status)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return NULL;
    char *text = NULL;
    if (fstat(fileno(file), status) == 0 && S_ISREG(status->st_mode) &&
        (text = malloc((size_t)status->st_size + 1)) != NULL)
        text[fread(text, 1, (size_t)status->st_size, file)] = '\0';
    fclose(file);
    return text;
}

static void refresh_locked(void)
{
    struct stat now;
    const char *path = state_path();
    if (readiness != STATE_ABSENT && stat(path, &now) == 0 && is_same_file(&now, &seen))
        return;
    state_discard(&current);
    readiness = STATE_ABSENT;
    char *text = file_read(path, &seen);
    if (text != NULL)
        readiness = state_parse(&current, text, path) ? STATE_READY : STATE_BROKEN;
    else if (errno != ENOENT)
        fprintf(stderr, "fake NVML: %s: %s\n", path, strerror(errno));
}

enum readiness state_refresh(void)
{
    pthread_mutex_lock(&lock);
    refresh_locked();
    enum readiness now = readiness;
    pthread_mutex_unlock(&lock);
    return now;
}

static const char *value_locked(slot_t slot, const char *key, unsigned int item)
{
    for (size_t i = 0; i < current.num_settings; i++) {
        const struct setting *setting = &current.settings[i];
        if (setting->slot == slot && setting->item == item && strcmp(setting->key, key) == 0)
            return setting->value;
    }
    return NULL;
}

/* Copies the value out, or says what the call shall return instead. */
static nvmlReturn_t state_value(slot_t slot, const char *key, unsigned int item, char *out, size_t size)
{
    nvmlReturn_t result = NVML_SUCCESS;
    unsigned long long code;
    pthread_mutex_lock(&lock);
    const char *value = value_locked(slot, key, item);
    if (value == NULL)
        result = NVML_ERROR_NOT_SUPPORTED;
    else if (strncmp(value, "error ", 6) == 0 && number_parse(value + 6, &code))
        result = (nvmlReturn_t)code;
    else if (strlen(value) >= size)
        result = NVML_ERROR_INSUFFICIENT_SIZE;
    else
        strcpy(out, value);
    pthread_mutex_unlock(&lock);
    return result;
}

nvmlReturn_t state_text(slot_t slot, const char *key, char *out, size_t size)
{
    return state_value(slot, key, NO_ITEM, out, size);
}

nvmlReturn_t state_mig(slot_t slot, unsigned int place, char *out, size_t size)
{
    nvmlReturn_t result = state_value(slot, "mig", place, out, size);
    return result == NVML_ERROR_NOT_SUPPORTED ? NVML_ERROR_NOT_FOUND : result;
}

static nvmlReturn_t number_of(slot_t slot, const char *key, unsigned int item, unsigned long long *out)
{
    char text[64];
    nvmlReturn_t result = state_value(slot, key, item, text, sizeof text);
    if (result == NVML_SUCCESS && !number_parse(text, out))
        return NVML_ERROR_UNKNOWN;
    return result;
}

nvmlReturn_t state_u64(slot_t slot, const char *key, unsigned long long *out)
{
    return number_of(slot, key, NO_ITEM, out);
}

nvmlReturn_t state_u32(slot_t slot, const char *key, unsigned int *out)
{
    unsigned long long wide;
    nvmlReturn_t result = state_u64(slot, key, &wide);
    if (result != NVML_SUCCESS)
        return result;
    if (wide > UINT32_MAX && wide < (unsigned long long)(long long)INT32_MIN) {
        fprintf(stderr, "fake NVML: gpu %d %s: %llu does not fit the 32 bits of the call\n", slot, key, wide);
        return NVML_ERROR_UNKNOWN;
    }
    *out = (unsigned int)wide;
    return NVML_SUCCESS;
}

unsigned int state_gpus(slot_t slots[MAX_GPUS])
{
    unsigned int count = 0;
    for (slot_t slot = 0; slot < MAX_GPUS; slot++)
        if (state_has_gpu(slot))
            slots[count++] = slot;
    return count;
}

bool state_has_gpu(slot_t slot)
{
    bool is_there = false;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < current.num_settings && !is_there; i++)
        is_there = current.settings[i].slot == slot;
    pthread_mutex_unlock(&lock);
    return is_there;
}

static bool is_of_kind(const char *value, const char *kind)
{
    const char *amount = strchr(value, ' '), *found = strstr(value, kind);
    return found != NULL && found < amount;
}

unsigned int state_processes(slot_t slot, const char *kind, const struct mig *slice, struct process *out,
                             unsigned int max)
{
    unsigned int count = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < current.num_settings; i++) {
        const struct setting *setting = &current.settings[i];
        struct process process;
        if (setting->slot != slot || strcmp(setting->key, "process") != 0 || !is_of_kind(setting->value, kind) ||
            !process_parse(setting->value, &process))
            continue;
        if (slice != NULL && (process.gpu_instance != slice->gpu_instance ||
                              process.compute_instance != slice->compute_instance))
            continue;
        process.pid = setting->item;
        if (count < max)
            out[count] = process;
        count++;
    }
    pthread_mutex_unlock(&lock);
    return count;
}

static bool is_about(const struct fault *fault, const char *subject)
{
    if (fault->action == ACTION_LOST || fault->action == ACTION_COUNT || fault->action == ACTION_FIELD)
        return subject == NULL;
    if (subject == NULL)
        return false;
    return strcmp(fault->subject, subject) == 0 ||
           (strcmp(fault->subject, "*") == 0 && strncmp(subject, "nvml", 4) == 0);
}

static bool find_fault(enum action action, const char *subject, slot_t slot, unsigned int field,
                       unsigned long long *amount)
{
    bool is_found = false;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < current.num_faults && !is_found; i++) {
        const struct fault *fault = &current.faults[i];
        is_found = fault->action == action && (fault->slot == NO_GPU || fault->slot == slot) &&
                   fault->field == field && is_about(fault, subject);
        if (is_found && amount != NULL)
            *amount = fault->amount;
    }
    pthread_mutex_unlock(&lock);
    return is_found;
}

bool state_fault(enum action action, const char *subject, slot_t slot, unsigned long long *amount)
{
    return find_fault(action, subject, slot, 0, amount);
}

bool state_field(slot_t slot, unsigned int field, nvmlReturn_t *result, unsigned long long *out)
{
    unsigned long long code;
    if (find_fault(ACTION_FIELD, NULL, slot, field, &code)) {
        *result = (nvmlReturn_t)code;
        return true;
    }
    pthread_mutex_lock(&lock);
    bool is_said = value_locked(slot, "field", field) != NULL;
    pthread_mutex_unlock(&lock);
    if (is_said)
        *result = number_of(slot, "field", field, out);
    return is_said;
}

unsigned long long state_last_xid(slot_t slot)
{
    unsigned long long last = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < current.num_xids; i++)
        if (current.xids[i].slot == slot && current.xids[i].sequence > last)
            last = current.xids[i].sequence;
    pthread_mutex_unlock(&lock);
    return last;
}

bool state_xid_after(slot_t slot, unsigned long long sequence, struct xid *out)
{
    bool is_found = false;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < current.num_xids; i++) {
        const struct xid *xid = &current.xids[i];
        if (xid->slot != slot || xid->sequence <= sequence || (is_found && xid->sequence >= out->sequence))
            continue;
        *out = *xid;
        is_found = true;
    }
    pthread_mutex_unlock(&lock);
    return is_found;
}
