/* The state file's grammar: one statement a line, # before a remark. The words are in README.md. */
#include "fake_nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WORDS 8
#define BLANKS " \t\r"

enum key_kind { KEY_UNKNOWN, KEY_TEXT, KEY_NUMBER };

static enum key_kind gpu_key_kind(const char *key)
{
#define DRIVER_TEXT(name)
#define DRIVER_NUMBER(name)
#define GPU_TEXT(name) if (strcmp(key, name) == 0) return KEY_TEXT;
#define GPU_NUMBER(name) if (strcmp(key, name) == 0) return KEY_NUMBER;
#include "fake_nvml_keys.inc"
#undef DRIVER_TEXT
#undef DRIVER_NUMBER
#undef GPU_TEXT
#undef GPU_NUMBER
    return KEY_UNKNOWN;
}

static enum key_kind driver_key_kind(const char *key)
{
#define DRIVER_TEXT(name) if (strcmp(key, name) == 0) return KEY_TEXT;
#define DRIVER_NUMBER(name) if (strcmp(key, name) == 0) return KEY_NUMBER;
#define GPU_TEXT(name)
#define GPU_NUMBER(name)
#include "fake_nvml_keys.inc"
#undef DRIVER_TEXT
#undef DRIVER_NUMBER
#undef GPU_TEXT
#undef GPU_NUMBER
    return KEY_UNKNOWN;
}

bool number_parse(const char *text, unsigned long long *out)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 0);
    if (end == text || errno != 0)
        return false;
    while (*end == ' ')
        end++;
    if (strcmp(end, "KiB") == 0)
        number <<= 10;
    else if (strcmp(end, "MiB") == 0)
        number <<= 20;
    else if (strcmp(end, "GiB") == 0)
        number <<= 30;
    else if (*end != '\0')
        return false;
    *out = number;
    return true;
}

static bool slot_parse(const char *word, slot_t *slot)
{
    unsigned long long number;
    if (word == NULL || !number_parse(word, &number) || number >= MAX_GPUS)
        return false;
    *slot = (slot_t)number;
    return true;
}

static bool is_value_of(enum key_kind kind, const char *value)
{
    unsigned long long ignored;
    if (strncmp(value, "error ", 6) == 0)
        return number_parse(value + 6, &ignored);
    return kind == KEY_TEXT || (kind == KEY_NUMBER && number_parse(value, &ignored));
}

/* "compute BYTES", "graphics BYTES" or "compute+graphics BYTES"; "unavailable" may stand for the bytes, and
 * "in GPU_INSTANCE COMPUTE_INSTANCE" behind them. */
bool process_parse(const char *value, struct process *out)
{
    static const char *const kinds[] = {"compute ", "graphics ", "compute+graphics "};
    const char *bytes = NULL;
    char amount[32];
    int end = 0;
    *out = (struct process){0, (unsigned long long)NVML_VALUE_NOT_AVAILABLE, NO_INSTANCE, NO_INSTANCE};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strncmp(value, kinds[i], strlen(kinds[i])) == 0)
            bytes = value + strlen(kinds[i]);
    if (bytes == NULL)
        return false;
    const char *slice = strstr(bytes, " in ");
    size_t length = slice == NULL ? strlen(bytes) : (size_t)(slice - bytes);
    if (length >= sizeof amount)
        return false;
    memcpy(amount, bytes, length);
    amount[length] = '\0';
    if (slice != NULL && (sscanf(slice, " in %u %u%n", &out->gpu_instance, &out->compute_instance, &end) != 2 ||
                          slice[end] != '\0'))
        return false;
    return strcmp(amount, "unavailable") == 0 || number_parse(amount, &out->used_bytes);
}

static bool is_process(const char *value)
{
    struct process ignored;
    return process_parse(value, &ignored);
}

/* "PROFILE GPU_INSTANCE COMPUTE_INSTANCE TOTAL USED", and the number of multiprocessors where it is known */
static bool is_mig(const char *value)
{
    struct mig ignored;
    return mig_parse(value, &ignored);
}

static void setting_add(struct state *state, slot_t slot, const char *key, unsigned int item, const char *value)
{
    state->settings[state->num_settings++] = (struct setting){slot, key, item, value};
}

/* words: process PID, field ID or mig PLACE */
static bool item_parse(struct state *state, slot_t slot, char **words, const char *value)
{
    unsigned long long item;
    if (!number_parse(words[1], &item) || item == NO_ITEM || item > 0xFFFFFFFFULL)
        return false;
    bool is_right = (strcmp(words[0], "field") == 0 && is_value_of(KEY_NUMBER, value)) ||
                    (strcmp(words[0], "process") == 0 && is_process(value)) ||
                    (strcmp(words[0], "mig") == 0 && item <= MAX_MIGS && is_mig(value));
    if (!is_right)
        return false;
    setting_add(state, slot, words[0], (unsigned int)item, value);
    return true;
}

/* words: N KEY, or N process PID, N field ID or N mig PLACE */
static bool gpu_parse(struct state *state, char **words, size_t num_words, const char *value)
{
    slot_t slot;
    if (value == NULL || num_words < 2 || !slot_parse(words[0], &slot))
        return false;
    if (num_words == 3)
        return item_parse(state, slot, words + 1, value);
    if (num_words != 2 || !is_value_of(gpu_key_kind(words[1]), value))
        return false;
    setting_add(state, slot, words[1], NO_ITEM, value);
    return true;
}

static bool is_call(const char *name)
{
    Dl_info self;
    if (strcmp(name, "*") == 0)
        return true;
    if (strncmp(name, "nvml", 4) != 0 || dladdr((const void *)&driver_key_kind, &self) == 0)
        return false;
    void *library = dlopen(self.dli_fname, RTLD_NOLOAD | RTLD_NOW);
    bool is_exported = library != NULL && dlsym(library, name) != NULL;
    if (library != NULL)
        dlclose(library);
    return is_exported;
}

/* words: nothing for "= CODE", else hang, hang_hard or latency_ms (= N) */
static bool action_parse(struct fault *fault, char **words, size_t num_words, const char *value)
{
    bool has_number = value != NULL && number_parse(value, &fault->amount);
    if (num_words == 0 && has_number)
        fault->action = ACTION_RETURN;
    else if (num_words == 1 && strcmp(words[0], "latency_ms") == 0 && has_number)
        fault->action = ACTION_LATENCY;
    else if (num_words == 1 && strcmp(words[0], "hang") == 0 && value == NULL)
        fault->action = ACTION_HANG;
    else if (num_words == 1 && strcmp(words[0], "hang_hard") == 0 && value == NULL)
        fault->action = ACTION_HANG_HARD;
    else
        return false;
    return true;
}

static bool subject_parse(struct fault *fault, char **words, size_t num_words, const char *value)
{
    const bool has_gpu = fault->slot != NO_GPU;
    unsigned long long field;
    if (num_words == 0)
        return false;
    fault->subject = words[0];
    if (strcmp(words[0], "lost") == 0 && has_gpu && num_words == 1 && value == NULL) {
        fault->action = ACTION_LOST;
        return true;
    }
    if (strcmp(words[0], "count") == 0 && !has_gpu && num_words == 1 && value != NULL) {
        fault->action = ACTION_COUNT;
        return number_parse(value, &fault->amount) && fault->amount <= MAX_GPUS;
    }
    if (strcmp(words[0], "init") == 0 && !has_gpu)
        return action_parse(fault, words + 1, num_words - 1, value);
    if (strcmp(words[0], "handle") == 0 && has_gpu)
        return action_parse(fault, words + 1, num_words - 1, value);
    if (strcmp(words[0], "call") == 0 && num_words >= 2 && is_call(words[1])) {
        fault->subject = words[1];
        return action_parse(fault, words + 2, num_words - 2, value);
    }
    if (strcmp(words[0], "field") == 0 && num_words == 2 && value != NULL && number_parse(words[1], &field)) {
        fault->field = (unsigned int)field;
        fault->action = ACTION_FIELD;
        return number_parse(value, &fault->amount);
    }
    return false;
}

static bool fault_parse(struct state *state, char **words, size_t num_words, const char *value)
{
    struct fault fault = {.slot = NO_GPU};
    if (num_words >= 2 && strcmp(words[0], "gpu") == 0) {
        if (!slot_parse(words[1], &fault.slot))
            return false;
        words += 2;
        num_words -= 2;
    }
    if (!subject_parse(&fault, words, num_words, value))
        return false;
    state->faults[state->num_faults++] = fault;
    return true;
}

/* words: gpu N CODE SEQUENCE */
static bool xid_parse(struct state *state, char **words, size_t num_words, const char *value)
{
    struct xid xid;
    if (value != NULL || num_words != 4 || strcmp(words[0], "gpu") != 0 || !slot_parse(words[1], &xid.slot) ||
        !number_parse(words[2], &xid.code) || !number_parse(words[3], &xid.sequence) || xid.sequence == 0)
        return false;
    state->xids[state->num_xids++] = xid;
    return true;
}

static bool statement_parse(struct state *state, char *line)
{
    char *words[MAX_WORDS], *cursor = NULL, *value = strchr(line, '=');
    size_t num_words = 0;
    if (value != NULL) {
        *value++ = '\0';
        value += strspn(value, BLANKS);
        for (char *end = value + strlen(value); end > value && strchr(BLANKS, end[-1]) != NULL;)
            *--end = '\0';
    }
    for (char *word = strtok_r(line, BLANKS, &cursor); word != NULL; word = strtok_r(NULL, BLANKS, &cursor)) {
        if (num_words == MAX_WORDS)
            return false;
        words[num_words++] = word;
    }
    if (num_words == 0)
        return false;
    if (strcmp(words[0], "gpu") == 0)
        return gpu_parse(state, words + 1, num_words - 1, value);
    if (strcmp(words[0], "fault") == 0)
        return fault_parse(state, words + 1, num_words - 1, value);
    if (strcmp(words[0], "xid") == 0)
        return xid_parse(state, words + 1, num_words - 1, value);
    if (num_words != 1 || value == NULL || !is_value_of(driver_key_kind(words[0]), value))
        return false;
    setting_add(state, NO_GPU, words[0], NO_ITEM, value);
    return true;
}

bool state_parse(struct state *state, char *text, const char *path)
{
    size_t num_lines = 1;
    for (const char *at = text; *at != '\0'; at++)
        num_lines += *at == '\n';
    *state = (struct state){.text = text,
                            .settings = calloc(num_lines, sizeof(struct setting)),
                            .faults = calloc(num_lines, sizeof(struct fault)),
                            .xids = calloc(num_lines, sizeof(struct xid))};
    if (state->settings == NULL || state->faults == NULL || state->xids == NULL)
        return false;
    char *next = text;
    for (unsigned int number = 1; next != NULL; number++) {
        char *line = next, said[120];
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        line += strspn(line, BLANKS);
        snprintf(said, sizeof said, "%s", line);
        if (*line == '\0' || *line == '#' || statement_parse(state, line))
            continue;
        fprintf(stderr, "fake NVML: %s:%u: not understood: %s\n", path, number, said);
        return false;
    }
    return true;
}

void state_discard(struct state *state)
{
    free(state->settings);
    free(state->faults);
    free(state->xids);
    free(state->text);
    *state = (struct state){0};
}
