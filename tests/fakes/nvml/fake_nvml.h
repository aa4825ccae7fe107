/* What the parts of the fake driver library share.
 *
 * NVIDIA's own header comes first and keeps its unversioned names, so that every exported function
 * below is defined against the prototype that NVIDIA ships (-Wmissing-prototypes refuses a stray one).
 */
#ifndef FAKE_NVML_H
#define FAKE_NVML_H

#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include <stdbool.h>
#include <stddef.h>

#define MAX_GPUS 64
#define NO_ITEM 0
#define NO_GPU (-1) /* the slot of what belongs to the driver as a whole */

/* A card's number in the state file. NVML's index is its rank among those that are listed. */
typedef int slot_t;

/* ---- the state file, parsed (fake_nvml_parse.c) ---- */

enum action { ACTION_RETURN, ACTION_HANG, ACTION_HANG_HARD, ACTION_LATENCY, ACTION_LOST, ACTION_COUNT, ACTION_FIELD };

struct setting {
    slot_t slot;
    const char *key;
    unsigned int item; /* of "process", "field" and "mig": which one */
    const char *value;
};

struct fault {
    slot_t slot;         /* NO_GPU: whichever card */
    const char *subject; /* a function's name, "*", "init" or "handle"; unused by the others */
    unsigned int field;  /* ACTION_FIELD alone */
    enum action action;
    unsigned long long amount; /* return code, milliseconds or number of cards */
};

struct xid {
    slot_t slot;
    unsigned long long code;
    unsigned long long sequence;
};

struct state {
    char *text; /* owns every string above */
    struct setting *settings;
    struct fault *faults;
    struct xid *xids;
    size_t num_settings, num_faults, num_xids;
};

/* Takes the text over. False, after a word on stderr, if a line says nothing that is understood. */
bool state_parse(struct state *state, char *text, const char *path);
void state_discard(struct state *state);
/* Decimal, 0x hexadecimal, negative as two's complement, with KiB, MiB or GiB behind it if wanted. */
bool number_parse(const char *text, unsigned long long *out);

/* ---- the state file as it stands now (fake_nvml_state.c); every call is safe from any thread ---- */

enum readiness { STATE_ABSENT, STATE_BROKEN, STATE_READY };

enum readiness state_refresh(void);
/* NVML_ERROR_NOT_SUPPORTED where the file has no such key, N where it says "error N". */
nvmlReturn_t state_text(slot_t slot, const char *key, char *out, size_t size);
nvmlReturn_t state_u64(slot_t slot, const char *key, unsigned long long *out);
nvmlReturn_t state_u32(slot_t slot, const char *key, unsigned int *out);
/* True if the file has "gpu N field ID" or a fault for it: then result and out hold what it says. */
bool state_field(slot_t slot, unsigned int field, nvmlReturn_t *result, unsigned long long *out);
/* What "gpu N mig PLACE" says; NVML_ERROR_NOT_FOUND where the file has no such place. */
nvmlReturn_t state_mig(slot_t slot, unsigned int place, char *out, size_t size);
unsigned int state_gpus(slot_t slots[MAX_GPUS]);
bool state_has_gpu(slot_t slot);

#define NO_INSTANCE 0xFFFFFFFFU

struct process {
    unsigned int pid;
    unsigned long long used_bytes;
    unsigned int gpu_instance, compute_instance; /* NO_INSTANCE on a card that is whole */
};
/* False if the value is none of a process; the pid is left 0. */
bool process_parse(const char *value, struct process *out);
struct mig;
/* How many processes of that kind ("compute" or "graphics") run on the card, or in that slice of it where one
 * is given; the first max are copied. */
unsigned int state_processes(slot_t slot, const char *kind, const struct mig *slice, struct process *out,
                             unsigned int max);

/* The first such fault in the file. A fault without a card holds for all of them. */
bool state_fault(enum action action, const char *subject, slot_t slot, unsigned long long *amount);
unsigned long long state_last_xid(slot_t slot);
bool state_xid_after(slot_t slot, unsigned long long sequence, struct xid *out);

/* ---- slices of cards (fake_nvml_mig.c) ---- */

#define MAX_MIGS 8
#define NUM_ACTIVITIES 3

struct mig {
    char profile[32]; /* 1g.10gb */
    unsigned int gpu_instance, compute_instance;
    unsigned long long total_bytes, used_bytes;
    unsigned int num_multiprocessors; /* 0 where the file does not say */
    bool has_activity;
    double activity[NUM_ACTIVITIES]; /* percent: graphics, multiprocessors, bandwidth of the memory */
    bool is_told[NUM_ACTIVITIES];    /* false where the file says "none" */
};

bool mig_parse(const char *value, struct mig *out);
bool is_mig_handle(nvmlDevice_t device);
/* NVML_ERROR_INVALID_ARGUMENT for a handle that is none of a MIG device. */
nvmlReturn_t enter_mig(const char *call, nvmlDevice_t device, slot_t *slot, struct mig *out);
/* The first slice that is in that GPU instance; NVML_ERROR_NOT_FOUND where there is none, or MIG is off. */
nvmlReturn_t mig_of_gpu_instance(slot_t slot, unsigned int gpu_instance, struct mig *out);
nvmlReturn_t mig_name(const char *call, nvmlDevice_t device, char *out, size_t size);
nvmlReturn_t mig_uuid(const char *call, nvmlDevice_t device, char *out, size_t size);

/* ---- samples of what slices do (fake_nvml_gpm.c) ---- */

/* Not NVIDIA's: how many samples are allocated now, so that a test can show that none is left behind. */
unsigned int fake_nvml_num_samples(void);

/* ---- what each call goes through first (fake_nvml_call.c) ---- */

void sleep_ms(unsigned long long duration_ms);
/* Latency, then hang, then the return code that the file asks for. */
nvmlReturn_t apply_faults(const char *subject, slot_t slot);
nvmlReturn_t enter_library(void);
nvmlReturn_t enter_device(const char *call, nvmlDevice_t device, slot_t *slot);
nvmlDevice_t device_of(slot_t slot);

/* A whole call whose answer is one key of one card. */
nvmlReturn_t read_u32(const char *call, nvmlDevice_t device, const char *key, unsigned int *out);
nvmlReturn_t read_u64(const char *call, nvmlDevice_t device, const char *key, unsigned long long *out);
nvmlReturn_t read_text(const char *call, nvmlDevice_t device, const char *key, char *out, unsigned int size);
/* The same for two keys that are one answer: both or neither. */
nvmlReturn_t read_u32_pair(const char *call, nvmlDevice_t device, const char *first_key, unsigned int *first,
                           const char *second_key, unsigned int *second);

#endif
