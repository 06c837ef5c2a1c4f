// SPDX-License-Identifier: Apache-2.0
// The back ends, and what they say alike.
#pragma once

#include "base/fail.h"
#include "base/str.h"
#include "machine/device/device.h"

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

// How long the driver may take. nvidia-smi on a healthy machine takes well under a second; GPUs
// that were asleep need one to two.
enum { DEVICE_DEADLINE_MS = 3000 };

// NVML's return codes that we act on (nvmlReturn_t, NVML 13.3).
enum {
    NVML_OK = 0,
    NVML_NOT_SUPPORTED = 3,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_TIMEOUT = 10,
    NVML_NO_LIBRARY = 12,
    NVML_NO_FUNCTION = 13,
    NVML_LOST = 15,
};
// What such a code means to a person, and what can be done.
struct str device_code_text(struct arena *a, int code);
// The other way: 999 (unknown) where the text begins like none of them.
int device_code_of(struct str text);
// Adds "card 1: reason" to left_out.
void device_leave_out(struct arena *a, struct device_list *list, int index, struct str reason);

// No GPU at this place of the list: FAIL_MACHINE, and why.
int device_no_card(int card, const struct device_list *list, struct fail *why);
// The part of it that trials watch.

// What is asked of a GPU; together.
enum device_ask {
    DEVICE_ASK_OFTEN = 1, // what a trial wants some times a second
    DEVICE_ASK_NOW = 2,   // all that changes
    DEVICE_ASK_PROCESSES = 4,
    DEVICE_ASK_FACTS = 8,
    DEVICE_ASK_PCIE = 16, // blocks 20 ms a direction
    DEVICE_ASK_PROFILE = 32,
    DEVICE_ASK_ALL = 15, // except those two
};

// A machine whose GPUs are asked again and again; the back ends put theirs behind it.
struct device_session {
    struct device_list list; // why_none: also where the driver does not start
    struct str cuda_version;
    bool is_wsl, is_hanging;
    double speed;
    const char *root; // before /proc and /sys; "" is this machine
};

// Everything may block for as long as a GPU hangs; the callers see to deadlines, except that
// list keeps its own.
struct device_backend {
    const char *begins; // the machines that it is for; "": folders; NULL: the machine at hand
    // Adds its devices; NULL: GPUs cannot be chosen from it, only watched.
    int (*list)(struct arena *a, const char *machine, struct device_list *list, struct fail *why);
    // The arena lives as long as the session. No driver is no error.
    int (*open)(struct arena *a, const char *machine, struct device_session **ret_session,
                struct fail *why);
    // Asks the device at this place of the session's list. `now` and the state are unknown before;
    // facts and processes are left alone unless they are asked for.
    void (*sample)(struct device_session *session, int place, int asked, struct device_card *card);
    void (*close)(struct device_session *session);
    // NVLinks and pairs of the topology's GPUs, which are at these places of the session's list.
    void (*join)(struct device_session *session, const struct device_card *cards, const int *places,
                 struct device_topology *t);
    // What the machines tell besides their GPUs, as struct device_snapshot has it; NULL: nothing.
    void (*tell)(struct device_session *session, struct buf *told);
};
// Those of the cards that answer, by the back end and the session's root.
void device_topology_ask(const struct device_backend *backend, struct device_session *session,
                         const struct device_card *cards, int count, struct device_topology *t);
// As /sys has it: the driver writes the domain in eight digits, and capitals.
void device_pci_id(const char *pci_bus_id, char *id, size_t size);
// The first line of ROOT/sys/bus/pci/devices/BUS/NAME; false: there is none.
bool device_pci_text(const char *root, const char *pci_bus_id, const char *name, char *text,
                     size_t size);
// The first whose machines begin like this one.
const struct device_backend *device_backend_of(const char *machine);
void device_card_name(struct device_card *card, const struct device *d);
// Forgets what a new sample will say.
void device_card_renew(struct device_card *card);
// "no GPU found" and the like, where nothing else says why.
void device_explain_none(struct device_list *list);
// A process of which only the number is known, and what ROOT/proc says of it (process.c).
struct device_process device_process_unknown(int64_t pid);
// Its place among those of the GPU that are kept, which are the largest; one that is listed twice
// is one. NULL: it is not among them, and only counted.
struct device_process *device_process_place(struct device_card *card, int64_t pid,
                                            int64_t used_bytes);
void device_processes_sort(struct device_card *card); // the largest first
void device_process_look(const char *root, struct device_process *p);
// Fills in the memory of a GPU that shares the CPU's, by ROOT/proc/meminfo.
void device_unified_memory(const char *root, struct device_card *card);

// NVIDIA's GPUs by ROOT/sys/bus/pci, without waking them. True: there are some and all of them
// sleep; then they are listed, by ROOT/proc/driver/nvidia.
bool device_all_asleep(struct arena *a, const char *root, struct device_list *list);
bool device_is_asleep(const char *root, const char *pci_bus_id);
void device_say_asleep(struct device_card *card);

int device_recording_list(struct arena *a, const char *machine, struct device_list *list,
                          struct fail *why);
int device_recording_open(struct arena *a, const char *machine, struct device_session **ret_session,
                          struct fail *why);
void device_recording_sample(struct device_session *session, int place, int asked,
                             struct device_card *card);
void device_recording_close(struct device_session *session);
void device_recording_join(struct device_session *session, const struct device_card *cards,
                           const int *places, struct device_topology *t);

int device_nvml_list(struct arena *a, const char *machine, struct device_list *list,
                     struct fail *why);
int device_nvml_open(struct arena *a, const char *machine, struct device_session **ret_session,
                     struct fail *why);
void device_nvml_sample(struct device_session *session, int place, int asked,
                        struct device_card *card);
void device_nvml_session_close(struct device_session *session);
void device_nvml_session_join(struct device_session *session, const struct device_card *cards,
                              const int *places, struct device_topology *t);

int device_remote_open(struct arena *a, const char *machine, struct device_session **ret_session,
                       struct fail *why);
void device_remote_sample(struct device_session *session, int place, int asked,
                          struct device_card *card);
void device_remote_join(struct device_session *session, const struct device_card *cards,
                        const int *places, struct device_topology *t);
void device_remote_tell(struct device_session *session, struct buf *told);
void device_remote_close(struct device_session *session);

// The machine at hand: NVIDIA's GPUs and AMD's.
int device_live_open(struct arena *a, const char *machine, struct device_session **ret_session,
                     struct fail *why);
void device_live_sample(struct device_session *session, int place, int asked,
                        struct device_card *card);
void device_live_close(struct device_session *session);
void device_live_join(struct device_session *session, const struct device_card *cards,
                      const int *places, struct device_topology *t);

// The same with another patience, for tests.
void device_nvml_list_within(struct arena *a, int deadline_ms, struct device_list *list);
// The machine's root; may change from "" when the driver is a fake.
const char *device_monitor_root(struct device_monitor *m);

// AMD GPUs, for the back end that asks the machine at hand (live.c). `root` is put before /proc
// and /sys.

void device_amd_open(struct arena *a, const char *root, struct device_session **ret_session);
void device_amd_sample(struct device_session *session, int place, int asked,
                       struct device_card *card);

// Threads that may hang in a driver: nobody ever waits for one without a deadline.

// Starts a detached thread; signals stay with the caller's threads. False: the system gives none.
bool device_thread(void *(*run)(void *), void *argument);
// A condition that waits by the monotonic clock, and a moment of that clock.
void device_cond_init(pthread_cond_t *cond);
struct timespec device_deadline(int ms);
// The next of the moments that lie an interval apart, after the last at *next_ns. Those that a slow
// driver has let pass are left out: no burst afterwards.
struct timespec device_next_turn(int64_t *next_ns, int interval_ms);
// Tells the threads to stop; who waits for `changed` looks.
void device_stop(pthread_mutex_t *lock, pthread_cond_t *changed, bool *is_stopped);
// An owner or a thread of its leaves what they share. True: it was the last of them and frees it;
// the lock and the condition are gone.
bool device_leave(pthread_mutex_t *lock, pthread_cond_t *changed, int *users);

// Other machines, by the HTTP API of their `batchfit serve`.

// One that was silent is left alone for a while: the others are not to wait for it each time.
enum { REMOTE_RUNS = 64 }; // of all machines together
enum { REMOTE_HOSTS = 16, REMOTE_DEADLINE_MS = 2000, REMOTE_REST_MS = 10000 };

struct remote_host {
    struct str name; // as the user wrote it, without scheme and path
    const char *address, *port;
    struct arena body; // of the newest answer
    struct str answer; // what came back, with its head; empty: nothing
    char reason[120];  // why nothing did
    int64_t again_ns;  // not before then
};

// "gpu01", "gpu01:8080", "http://[::1]:8080/". FAIL_USAGE.
int device_remote_read_host(struct arena *a, struct str text, struct remote_host *ret_host,
                            struct fail *why);
// GET /api/v1/snapshot of all of them at once, within the deadline. `token` may be NULL.
void device_remote_fetch(struct remote_host *hosts, int count, const char *token);

// A recording as its two readers share it: the list (recording.c) and the values over time
// (recording_play.c).

// A device's object, and its GPU's where it is an instance (else NULL).
struct recorded {
    const json_t *object, *parent;
};

struct reading {
    struct arena *arena;
    struct device_list *list;
    struct recorded *places; // of the listed devices, at the same place
    ptrdiff_t count, capacity;
    bool is_hanging; // the driver
};

// The machine's object, which the caller drops; NULL with *why.
json_t *device_recording_load(struct arena *a, const char *machine, const char **ret_path,
                              struct fail *why);
int device_recording_read(struct reading *r, const json_t *machine, struct fail *why);
// A whole number between low and high; `absent` where the key is missing or null.
int device_json_number(const json_t *object, const char *key, int64_t low, int64_t high,
                       int64_t absent, int64_t *ret, struct fail *why);
// "topology" of a GPU's object: what is between this GPU and the others. Unknown where it is not
// as the format has it.
void device_topology_read(const json_t *object, struct device_topology *t, int at);
json_t *device_topology_write(const struct device_topology *t, int at);
