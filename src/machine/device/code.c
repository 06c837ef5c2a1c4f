// SPDX-License-Identifier: Apache-2.0
// NVML's codes in words, and back: recordings keep the code.
#include "machine/device/device_int.h"

static const struct {
    int code;
    const char *text, *remedy;
} code_texts[] = {
    {4, "no permission: this user (or container) has no access to /dev/nvidia*",
     "join the group of /dev/nvidia* (ls -l /dev/nvidia*); a container: docker run --gpus all"},
    {9,
     "the NVIDIA kernel driver is not loaded: load it (modprobe nvidia), or reboot after an "
     "update",
     "modprobe nvidia, or reboot after an update of the driver"},
    {NVML_TIMEOUT, "the NVIDIA driver did not answer within 3 s: a GPU hangs (see dmesg), or GPUs "
                   "are waking up; try again"},
    {NVML_NO_LIBRARY, "no NVIDIA driver library (libnvidia-ml.so.1) on this machine"},
    {NVML_NO_FUNCTION, "the NVIDIA driver is too old"},
    {NVML_LOST, "the driver lost it (it fell off the bus or hangs): reset it or reboot"},
    {16, "it needs a reset: nvidia-smi --gpu-reset, or reboot"},
    {18,
     "the NVIDIA library and the kernel driver have different versions: reboot, or match the "
     "host's driver in a container",
     "reboot; in a container, use a driver library of the host's version"},
};

struct str device_code_text(struct arena *a, int code) {
    for (size_t i = 0; i < sizeof code_texts / sizeof *code_texts; i++) {
        if (code_texts[i].code == code) return str_of(code_texts[i].text);
    }
    return str_format(a, "the NVIDIA driver returned error %d", code);
}

const char *device_code_remedy(struct str why_none) {
    for (size_t i = 0; i < sizeof code_texts / sizeof *code_texts; i++) {
        if (code_texts[i].remedy && str_equal(why_none, str_of(code_texts[i].text)))
            return code_texts[i].remedy;
    }
    return NULL;
}

int device_code_of(struct str text) {
    int64_t code;
    for (size_t i = 0; i < sizeof code_texts / sizeof *code_texts; i++) {
        if (str_starts(text, str_of(code_texts[i].text))) return code_texts[i].code;
    }
    ptrdiff_t at = str_find(text, STR("error "));
    struct str rest = at < 0 ? (struct str){0} : str_slice(text, at + 6, text.len);
    rest = str_cut(&rest, ';');
    return str_to_i64(rest, &code) && code > 0 && code < 1000 ? (int)code : 999;
}

void device_leave_out(struct arena *a, struct device_list *list, int index, struct str reason) {
    list->left_out = str_format(a, "%.*s%sGPU %d: %.*s", STR_ARG(list->left_out),
                                list->left_out.len ? "; " : "", index, STR_ARG(reason));
}
