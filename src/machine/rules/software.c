// SPDX-License-Identifier: Apache-2.0
// Rules about driver, CUDA and PyTorch: there, and fit for each other. What needs what: needs.c.
#include "machine/rules/rules_int.h"

#include <ctype.h>

static int64_t driver_of(const struct view *v) {
    return rules_driver_number(v->facts->devices.driver_version);
}

static bool has_cuda_build(const struct view *v) {
    return v->facts->torch.state == RULES_TORCH_FOUND && v->facts->torch.cuda.len > 0;
}

bool rules_standin(const struct view *v, struct finding *f) {
    struct str standin = v->facts->devices.standin;
    if (standin.len == 0) return false;
    return finding_say(f, FINDING_NOTE, STR("no real GPU"), standin,
                       "everything about GPUs here comes from a simulated machine");
}

// A machine without NVIDIA hardware: no library of the driver, or a driver that works and lists no
// GPU.
static bool has_no_hardware(const struct rules_facts *k) {
    return k->driver_is_absent ||
           (k->devices.state == DEVICE_ANSWERS && k->devices.driver_version.len > 0);
}

// No GPU was found: that there is none is as good an answer as any; that it cannot be used is not.
static bool judge_nothing(const struct view *v, struct finding *f) {
    const struct rules_facts *k = v->facts;
    struct str why = k->devices.why_none;
    const char *remedy = device_code_remedy(why);
    if (k->devices.state == DEVICE_HANGS) {
        return finding_say(f, FINDING_PROBLEM, STR("does not answer"), why,
                           "look for NVRM and Xid in dmesg; reset the GPU or reboot");
    }
    if (k->nvidia_cards > 0) {
        return finding_tell(v->arena, f, FINDING_PROBLEM, STR("not usable"),
                            remedy ? remedy
                            : k->in_container
                                ? "give the container access to the GPUs (docker run --gpus all)"
                                : "install the NVIDIA driver, or load it (modprobe nvidia), until "
                                  "nvidia-smi lists the GPU",
                            "%d NVIDIA GPU%s on the PCI bus, but: %.*s", k->nvidia_cards,
                            k->nvidia_cards == 1 ? "" : "s", STR_ARG(why));
    }
    if (has_no_hardware(k)) {
        return finding_say(f, FINDING_NOTE, STR("none"), why,
                           "trainings run on the CPU here; fit, team and explain predict for "
                           "any GPU (--gpu NAME)");
    }
    return finding_say(f, FINDING_PROBLEM, STR("not usable"), why,
                       remedy ? remedy : "nvidia-smi must list the GPU before PyTorch can use it");
}

bool rules_driver(const struct view *v, struct finding *f) {
    const struct device_snapshot *d = &v->facts->devices;
    if (d->count == 0) return judge_nothing(v, f);
    if (d->state == DEVICE_HANGS) {
        return finding_say(f, FINDING_PROBLEM, STR("does not answer"),
                           STR("the driver listed its GPUs and then stopped answering"),
                           "look for NVRM and Xid in dmesg; reset the GPU or reboot");
    }
    if (d->driver_version.len == 0) {
        return finding_say(f, FINDING_UNKNOWN, (struct str){0},
                           STR("the driver does not report its version"), NULL);
    }
    return finding_tell(v->arena, f, FINDING_OK, d->driver_version, NULL,
                        "driver %.*s, %d device%s%s%.*s", STR_ARG(d->driver_version), d->count,
                        d->count == 1 ? "" : "s", d->cuda_version.len ? ", CUDA up to " : "",
                        STR_ARG(d->cuda_version));
}

// The oldest GPU decides which wheels are of use; 0: unknown.
static int least_capability(const struct view *v) {
    int least = 0;
    for (int i = 0; i < v->facts->devices.count; i++) {
        int cc = v->facts->supports[i].compute_capability;
        if (cc > 0 && (least == 0 || cc < least)) least = cc;
    }
    return least;
}

// Jetson boards have drivers with numbers of their own, and wheels of NVIDIA's.
static bool is_jetson(const struct view *v) {
    return v->facts->devices.count > 0 && v->facts->devices.cards[0].is_unified &&
           !v->facts->supports[0].is_known;
}

// What PyTorch's own wheels ask of the driver.
bool rules_driver_cuda(const struct view *v, struct finding *f) {
    int64_t driver = driver_of(v);
    int least = least_capability(v);
    const struct rules_cuda *full = rules_cuda_of_driver(v->needs, driver);
    const struct rules_build *newest = rules_build_for(v->needs, 0, least);
    const struct rules_build *runs = rules_build_for(v->needs, driver, least);
    if (driver == 0 || !newest || is_jetson(v)) return false;
    struct str value =
        full ? str_format(v->arena, "CUDA %d.%d", full->cuda / 100, full->cuda % 100) : STR("old");
    const struct rules_cuda *wants = rules_cuda_find(v->needs, newest->cuda);
    struct str needed = wants ? wants->runs_from_text : STR("newer");
    if (!runs) {
        return finding_tell(
            v->arena, f, FINDING_WARNING, value,
            str_format(v->arena, "update the driver to %.*s or later", STR_ARG(needed)).p,
            "driver %.*s is too old for PyTorch's CUDA builds (1.12 or later)",
            STR_ARG(v->facts->devices.driver_version));
    }
    struct str build =
        str_format(v->arena, "the newest PyTorch build it supports is %d.%d for CUDA %d.%d",
                   runs->torch / 100, runs->torch % 100, runs->cuda / 100, runs->cuda % 100);
    if (runs->torch < newest->torch) {
        return finding_say(f, FINDING_WARNING, value, build,
                           str_format(v->arena,
                                      "update the driver to %.*s or later for PyTorch %d.%d",
                                      STR_ARG(needed), newest->torch / 100, newest->torch % 100)
                               .p);
    }
    if (runs->cuda < newest->cuda) {
        return finding_say(f, FINDING_NOTE, value, build,
                           str_format(v->arena, "builds for CUDA %d.%d need driver %.*s",
                                      newest->cuda / 100, newest->cuda % 100, STR_ARG(needed))
                               .p);
    }
    return finding_say(f, FINDING_OK, value, build, NULL);
}

bool rules_left_out(const struct view *v, struct finding *f) {
    struct str left_out = v->facts->devices.left_out;
    if (left_out.len == 0) return false;
    return finding_say(
        f, FINDING_PROBLEM, STR("not all usable"), left_out,
        "nvidia-smi --gpu-reset or a reboot brings a lost GPU back; look for Xid in dmesg");
}

// Which wheels to install on this machine.
static struct str advice(const struct view *v) {
    int least = least_capability(v);
    const struct rules_build *b = rules_build_for(v->needs, driver_of(v), least);
    if (v->facts->devices.count == 0) {
        return STR(
            "install PyTorch (pip install torch), or name the Python that has it with --python");
    }
    if (!b) return STR("no build of PyTorch from 1.12 on runs on this driver and GPU");
    return str_format(v->arena,
                      "install a CUDA build of PyTorch (here %d.%d for CUDA %d.%d), or name the "
                      "Python that has one with --python",
                      b->torch / 100, b->torch % 100, b->cuda / 100, b->cuda % 100);
}

bool rules_torch(const struct view *v, struct finding *f) {
    const struct rules_torch *t = &v->facts->torch;
    switch (t->state) {
    case RULES_TORCH_UNASKED:
        return finding_say(f, FINDING_UNKNOWN, (struct str){0},
                           STR("a recorded machine does not include its PyTorch"), NULL);
    case RULES_TORCH_NO_PYTHON:
        return finding_say(f, FINDING_WARNING, STR("no Python"), t->error, advice(v).p);
    case RULES_TORCH_MISSING:
        return finding_tell(v->arena, f, FINDING_WARNING,
                            t->is_read ? STR("not installed") : STR("cannot be imported"),
                            advice(v).p, "%.*s: %.*s", STR_ARG(t->python), STR_ARG(t->error));
    case RULES_TORCH_HANGS:
        return finding_say(f, FINDING_PROBLEM, STR("no answer"), t->error,
                           "run python -c 'import torch; torch.cuda.is_available()' by hand: a GPU "
                           "may hang, or a file system may be slow");
    case RULES_TORCH_FOUND:
        break;
    }
    return finding_tell(v->arena, f, FINDING_OK, t->version, NULL,
                        "Python %.*s (%.*s%s)%s%.*s%s%.*s%s%.*s", STR_ARG(t->python_version),
                        STR_ARG(t->python), t->is_read ? ", by its files" : "",
                        t->cuda.len ? ", CUDA " : "", STR_ARG(t->cuda), t->hip.len ? ", ROCm " : "",
                        STR_ARG(t->hip), t->cudnn.len ? ", cuDNN " : "", STR_ARG(t->cudnn));
}

bool rules_torch_build(const struct view *v, struct finding *f) {
    const struct rules_torch *t = &v->facts->torch;
    bool is_cpu = t->cuda.len == 0 && t->hip.len == 0;
    if (t->state != RULES_TORCH_FOUND) return false;
    if (is_cpu && v->facts->devices.count > 0) {
        return finding_tell(v->arena, f, FINDING_PROBLEM, STR("for the CPU"), advice(v).p,
                            "PyTorch %.*s is built without CUDA, but the machine has a GPU",
                            STR_ARG(t->version));
    }
    if (is_cpu) {
        return finding_say(f, FINDING_OK, STR("for the CPU"),
                           STR("built without CUDA; the machine has no GPU"), NULL);
    }
    return finding_say(f, FINDING_OK,
                       str_format(v->arena, "%s %.*s", t->cuda.len ? "CUDA" : "ROCm",
                                  STR_ARG(t->cuda.len ? t->cuda : t->hip)),
                       STR("a build for GPUs"), NULL);
}

bool rules_torch_driver(const struct view *v, struct finding *f) {
    int64_t driver = driver_of(v);
    int cuda = rules_version(v->facts->torch.cuda);
    const struct rules_cuda *row = rules_cuda_find(v->needs, cuda);
    if (!has_cuda_build(v) || driver == 0) return false;
    struct str name = str_format(v->arena, "%d.%d", cuda / 100, cuda % 100);
    struct str now = v->facts->devices.driver_version;
    if (!row) {
        return finding_tell(v->arena, f, FINDING_UNKNOWN, name, NULL,
                            "CUDA %.*s is not in the driver table", STR_ARG(name));
    }
    if (driver < row->runs_from) {
        return finding_tell(
            v->arena, f, FINDING_PROBLEM, now,
            str_format(v->arena, "update the driver, or %.*s", STR_ARG(advice(v))).p,
            "PyTorch's CUDA %.*s needs driver %.*s; this is %.*s", STR_ARG(name),
            STR_ARG(row->runs_from_text), STR_ARG(now));
    }
    if (row->driver > driver) {
        return finding_tell(
            v->arena, f, FINDING_NOTE, now,
            "nothing to do unless an extension fails; a newer driver removes the limit",
            "CUDA %.*s came with driver %.*s; %.*s runs it with minor "
            "version compatibility: no kernels compiled at run time from "
            "PTX",
            STR_ARG(name), STR_ARG(row->driver_text), STR_ARG(now));
    }
    return finding_tell(v->arena, f, FINDING_OK, now, NULL, "CUDA %.*s needs %.*s", STR_ARG(name),
                        STR_ARG(row->driver > 0 ? row->driver_text : row->runs_from_text));
}

bool rules_torch_cuda(const struct view *v, struct finding *f) {
    const struct rules_torch *t = &v->facts->torch;
    int count = v->facts->devices.count;
    if (!has_cuda_build(v) || count == 0 || t->cuda_available < 0) return false;
    if (!t->cuda_available) {
        return finding_tell(v->arena, f, FINDING_PROBLEM, STR("no"),
                            "check CUDA_VISIBLE_DEVICES, the permissions of /dev/nvidia*, and the "
                            "driver version above",
                            "torch.cuda.is_available() is False%s%.*s",
                            t->cuda_error.len ? ": " : "", STR_ARG(t->cuda_error));
    }
    struct str value = str_format(v->arena, "%d of %d", t->cuda_devices, count);
    if (t->cuda_devices >= 0 && t->cuda_devices < count) {
        return finding_tell(v->arena, f, FINDING_NOTE, value,
                            "check CUDA_VISIBLE_DEVICES; a process sees only one MIG instance",
                            "PyTorch sees %d of the %d devices", t->cuda_devices, count);
    }
    return finding_say(f, FINDING_OK, value, STR("torch.cuda.is_available() is True"), NULL);
}

bool rules_torch_compile(const struct view *v, struct finding *f) {
    const struct rules_torch *t = &v->facts->torch;
    if (t->state != RULES_TORCH_FOUND) return false;
    if (rules_version(t->version) < 200) {
        return finding_tell(v->arena, f, FINDING_NOTE, STR("no"),
                            "PyTorch 2 also has fused attention",
                            "not in PyTorch %.*s; it came with 2.0", STR_ARG(t->version));
    }
    if (v->facts->devices.count > 0 && t->has_triton == 0) {
        return finding_say(f, FINDING_NOTE, STR("no"), STR("Triton cannot be imported"),
                           "pip install triton, if the training compiles its model");
    }
    if (t->has_compiler == 0) {
        return finding_say(f, FINDING_NOTE, STR("no"), STR("no C++ compiler (g++, clang++)"),
                           "install one, if the training compiles its model");
    }
    return finding_tell(v->arena, f, FINDING_OK, STR("yes"), NULL, "PyTorch %.*s, %s",
                        STR_ARG(t->version),
                        t->has_triton > 0 ? "Triton and a compiler" : "a compiler");
}

// "sm_86" runs on 8.6 to 8.9, "sm_90a" on 9.0 only, "compute_80" is compiled for anything from 8.0.
static bool runs_on(struct str arch, int capability) {
    bool is_ptx = str_starts(arch, STR("compute_"));
    struct str number = str_slice(arch, is_ptx ? 8 : 3, arch.len);
    int64_t value;
    if (!is_ptx && !str_starts(arch, STR("sm_"))) return false;
    bool is_exact = number.len > 0 && number.p[number.len - 1] == 'a';
    if (number.len > 0 && isalpha((unsigned char)number.p[number.len - 1])) number.len--;
    if (!str_to_i64(number, &value)) return false;
    if (is_ptx) return value <= capability;
    return is_exact ? value == capability : value / 10 == capability / 10 && value <= capability;
}

static bool has_kernels(struct str archs, int capability) {
    while (archs.p) {
        if (runs_on(str_trim(str_cut(&archs, ' ')), capability)) return true;
    }
    return false;
}

bool rules_torch_kernels(const struct view *v, struct finding *f) {
    const struct rules_torch *t = &v->facts->torch;
    int cc = v->support->compute_capability;
    if (!has_cuda_build(v) || cc <= 0) return false;
    struct str value = str_format(v->arena, "sm_%d", cc);
    if (t->archs.len == 0) {
        return finding_say(f, FINDING_UNKNOWN, value,
                           STR("this PyTorch does not report what it was built for"), NULL);
    }
    struct str built = str_format(v->arena, "PyTorch %.*s was built for %.*s", STR_ARG(t->version),
                                  STR_ARG(t->archs));
    if (has_kernels(t->archs, cc)) return finding_say(f, FINDING_OK, value, built, NULL);
    return finding_tell(v->arena, f, FINDING_PROBLEM, value, advice(v).p,
                        "%.*s: nothing for this GPU (compute capability %d.%d); it "
                        "fails with \"no kernel image is available\"",
                        STR_ARG(built), cc / 10, cc % 10);
}
