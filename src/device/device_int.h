// SPDX-License-Identifier: Apache-2.0
// The back ends, and what they say alike.
#ifndef DEVICE_DEVICE_INT_H
#define DEVICE_DEVICE_INT_H

#include "device/sampler.h"

// How long the driver may take. nvidia-smi on a healthy machine takes well under a second; cards
// that were asleep need one to two.
enum { DEVICE_DEADLINE_MS = 3000 };

// NVML's return codes that we act on (nvmlReturn_t, NVML 13.3).
enum {
    NVML_OK = 0,
    NVML_NOT_SUPPORTED = 3,
    NVML_TIMEOUT = 10,
    NVML_NO_LIBRARY = 12,
    NVML_NO_FUNCTION = 13,
    NVML_LOST = 15,
};
// What such a code means to a person, and what can be done.
struct str device_code_text(struct arena *a, int code);
// Adds "card 1: reason" to left_out.
void device_leave_out(struct arena *a, struct device_list *list, int index, struct str reason);

// No card at this place of the list: FAIL_MACHINE, and why.
int device_no_card(int card, const struct device_list *list, struct fail *why);
// A sample in which everything is unknown.
struct device_sample device_sample_unknown(void);

// One card that is asked again and again, by one thread; what it is, is the back end's secret.
struct device_session;

// Everything may block for as long as a card hangs; the callers see to deadlines, except that
// list keeps its own.
struct device_backend {
    const char *name;
    bool is_recording;
    // Adds its devices.
    int (*list)(struct arena *a, const char *machine, struct device_list *list, struct fail *why);
    // The device at this place of its list. The arena lives as long as the session.
    int (*open)(struct arena *a, const char *machine, int card, struct device_session **ret_session,
                struct fail *why);
    // Fills in what it knows; the rest of *sample is left alone.
    void (*sample)(struct device_session *session, struct device_sample *sample);
    void (*close)(struct device_session *session);
};
const struct device_backend *device_backend_of(bool is_recording); // of the sampler

int device_recording_list(struct arena *a, const char *machine, struct device_list *list,
                          struct fail *why);
int device_recording_open(struct arena *a, const char *machine, int card,
                          struct device_session **ret_session, struct fail *why);
void device_recording_sample(struct device_session *session, struct device_sample *sample);
void device_recording_close(struct device_session *session);

int device_nvml_list(struct arena *a, const char *machine, struct device_list *list,
                     struct fail *why);
int device_nvml_open(struct arena *a, const char *machine, int card,
                     struct device_session **ret_session, struct fail *why);
void device_nvml_sample(struct device_session *session, struct device_sample *sample);
void device_nvml_session_close(struct device_session *session);

// The same with another patience, for tests.
void device_nvml_list_within(struct arena *a, int deadline_ms, struct device_list *list);
int device_sampler_open_within(struct arena *a, int deadline_ms, const char *machine, int card,
                               int interval_ms, struct device_sampler **ret_sampler,
                               struct fail *why);

#endif
