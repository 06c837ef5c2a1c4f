// SPDX-License-Identifier: Apache-2.0
// The rules: for each a machine on which it holds, and one on which it does not.
#include "unit.h"

#include "base/unit.h"
#include "machine/rules/rules.h"

#include <math.h>
#include <stdio.h>

enum { CARDS = 8 };

// A healthy machine: one RTX 4090, 16 cores, 64 GiB. Tests change what they are about.
struct machine {
    struct arena arena;
    struct rules_facts facts;
    struct rules_support supports[CARDS];
    struct device_card cards[CARDS];
    struct rules_needs needs;
    struct findings findings;
};

static struct device_card card_of(int index) {
    struct device_card card = device_card_unknown();
    card.index = index;
    card.state = DEVICE_ANSWERS;
    snprintf(card.facts.name, sizeof card.facts.name, "NVIDIA GeForce RTX 4090");
    card.now.total_bytes = 24 * UNIT_GIB;
    card.now.free_bytes = 24 * UNIT_GIB - 300 * UNIT_MIB;
    card.now.used_bytes = 10 * UNIT_MIB;
    card.now.reserved_bytes = 290 * UNIT_MIB;
    return card;
}

static void set_up(struct machine *m) {
    *m = (struct machine){0};
    for (int i = 0; i < CARDS; i++) {
        m->cards[i] = card_of(i);
        m->supports[i] = (struct rules_support){.is_known = true,
                                                .tier = STR("high_end"),
                                                .compute_capability = 89,
                                                .has_tensor_cores = true,
                                                .has_bf16 = true,
                                                .pcie_generation = 4};
    }
    m->facts = (struct rules_facts){
        .devices = {.state = DEVICE_ANSWERS,
                    .cards = m->cards,
                    .count = 1,
                    .driver_version = STR("580.95.05"),
                    .cuda_version = STR("13.0")},
        .supports = m->supports,
        .nvidia_cards = 1,
        .torch = {.state = RULES_TORCH_FOUND,
                  .python = STR("python3"),
                  .python_version = STR("3.11.2"),
                  .version = STR("2.13.0+cu130"),
                  .cuda = STR("13.0"),
                  .archs = STR("sm_75 sm_80 sm_86 sm_90 sm_100 sm_120 compute_120"),
                  .cuda_available = 1,
                  .cuda_devices = 1,
                  .has_triton = 1,
                  .has_compiler = 1},
        .cpu = {STR("a CPU"), 16, 64 * UNIT_GIB, 60 * UNIT_GIB, (double)NAN, {64 * UNIT_GIB}},
        .machine_cores = 16,
        .shm_bytes = 32 * UNIT_GIB,
        .shm_free_bytes = 32 * UNIT_GIB,
        .batch_bytes = -1,
        .workers = -1,
        .own_pid = -1,
    };
    struct fail why = {0};
    assert_int_equal(rules_needs_load(&m->arena, &m->needs, &why), 0);
}

// The finding of that id, NULL: the rule says nothing.
static const struct finding *find(struct machine *m, const char *id) {
    rules_judge(&m->arena, &m->facts, &m->needs, &m->findings);
    for (ptrdiff_t i = 0; i < m->findings.count; i++) {
        if (strcmp(m->findings.items[i].id, id) == 0) return &m->findings.items[i];
    }
    return NULL;
}

static bool has(struct str text, const char *part) {
    return str_find(text, str_of(part)) >= 0;
}

static const struct finding *expect(struct machine *m, const char *id,
                                    enum finding_severity severity, const char *evidence) {
    const struct finding *f = find(m, id);
    if (!f) fail_msg("%s: nothing is said", id);
    if (f->severity != severity || !has(f->evidence, evidence)) {
        fail_msg("%s: %s \"%.*s\"", id, finding_severity_name(f->severity), STR_ARG(f->evidence));
    }
    // What is wrong comes with what to do.
    if (severity >= FINDING_WARNING) assert_true(f->remedy.len > 0);
    return f;
}

#define MACHINE       \
    (void)state;      \
    struct machine m; \
    set_up(&m)

static void a_healthy_machine_is_fine(void **state) {
    MACHINE;
    assert_null(find(&m, "no such id"));
    for (ptrdiff_t i = 0; i < m.findings.count; i++) {
        const struct finding *f = &m.findings.items[i];
        if (f->severity > FINDING_NOTE) fail_msg("%s: %.*s", f->id, STR_ARG(f->evidence));
        for (ptrdiff_t j = 0; j < i; j++) { // ids are unique in a machine and a GPU
            assert_false(m.findings.items[j].card == f->card &&
                         strcmp(m.findings.items[j].id, f->id) == 0);
        }
    }
    expect(&m, "driver.found", FINDING_OK, "CUDA up to 13.0");
    arena_clear(&m.arena);
}

static void versions_are_read(void **state) {
    MACHINE;
    assert_true(rules_driver_number(STR("535.183.01")) == 535183001);
    assert_true(rules_driver_number(STR("570.26")) < rules_driver_number(STR("570.26.01")));
    assert_true(rules_driver_number(STR("575.51.03")) > rules_driver_number(STR("570.133.20")));
    assert_true(rules_driver_number(STR("old")) == 0);
    assert_int_equal(rules_version(STR("2.13.0+cu130")), 213);
    assert_int_equal(rules_version(STR("12.8")), 1208);
    assert_int_equal(rules_version(STR("nightly")), 0);
    assert_int_equal(rules_cuda_runs(&m.needs, 1206, rules_driver_number(STR("535.54.03"))), 1);
    assert_int_equal(rules_cuda_runs(&m.needs, 1300, rules_driver_number(STR("575.51.03"))), 0);
    assert_int_equal(rules_cuda_runs(&m.needs, 9900, 1), -1);
    // Pascal: the newest wheels with kernels for it are those for CUDA 12.6.
    assert_int_equal(rules_build_for(&m.needs, 0, 61)->cuda, 1206);
    assert_int_equal(rules_build_for(&m.needs, rules_driver_number(STR("470.82.01")), 86)->cuda,
                     1108);
    assert_null(rules_build_for(&m.needs, rules_driver_number(STR("390.46")), 61));
    arena_clear(&m.arena);
}

static void no_driver_is_an_answer(void **state) {
    MACHINE;
    m.facts.devices.count = 0;
    m.facts.devices.driver_version = (struct str){0};
    m.facts.devices.state = DEVICE_WAITS;
    m.facts.devices.why_none = STR("no NVIDIA driver library on this machine");
    m.facts.driver_is_absent = true;
    m.facts.nvidia_cards = 0;
    m.facts.torch.cuda = (struct str){0};
    expect(&m, "driver.found", FINDING_NOTE, "no NVIDIA driver library");
    expect(&m, "torch.build", FINDING_OK, "no GPU");
    assert_null(find(&m, "driver.cuda"));
    m.facts.nvidia_cards = 2;
    expect(&m, "driver.found", FINDING_PROBLEM, "2 NVIDIA GPUs on the PCI bus");
    m.facts.in_container = true;
    assert_true(has(find(&m, "driver.found")->remedy, "--gpus all"));
    m.facts.nvidia_cards = -1;
    m.facts.driver_is_absent = false;
    m.facts.devices.why_none = STR("library and kernel driver are of different versions");
    expect(&m, "driver.found", FINDING_PROBLEM, "different versions");
    m.facts.devices.state = DEVICE_HANGS;
    assert_str(expect(&m, "driver.found", FINDING_PROBLEM, "")->value, "does not answer");
    arena_clear(&m.arena);
}

static void drivers_limit_pytorch(void **state) {
    MACHINE;
    expect(&m, "driver.cuda", FINDING_OK, "2.14 for CUDA 13.2");
    expect(&m, "torch.driver", FINDING_OK, "580.65.06");
    m.facts.devices.driver_version = STR("550.54.14");
    expect(&m, "driver.cuda", FINDING_NOTE, "2.14 for CUDA 12.6");
    expect(&m, "torch.driver", FINDING_PROBLEM, "needs driver 580.65.06; this is 550.54.14");
    m.facts.torch.cuda = STR("12.6");
    expect(&m, "torch.driver", FINDING_NOTE, "minor version compatibility");
    m.facts.devices.driver_version = STR("470.82.01");
    expect(&m, "driver.cuda", FINDING_WARNING, "2.7 for CUDA 11.8");
    m.supports[0].compute_capability = 61; // for this GPU the newest is built for CUDA 12.6
    assert_true(has(expect(&m, "driver.cuda", FINDING_WARNING, "2.7")->remedy, "525.60.13"));
    m.facts.devices.driver_version = STR("550.54.14");
    expect(&m, "driver.cuda", FINDING_OK, "2.14 for CUDA 12.6");
    m.cards[0].is_unified = true;
    m.supports[0].is_known = false;
    assert_null(find(&m, "driver.cuda")); // Jetson numbers its drivers in its own way
    m.cards[0].is_unified = false;
    m.facts.devices.driver_version = STR("390.46");
    expect(&m, "driver.cuda", FINDING_WARNING, "too old for PyTorch's CUDA builds");
    m.facts.devices.driver_version = STR("580.95.05");
    m.facts.torch.cuda = STR("99.1");
    expect(&m, "torch.driver", FINDING_UNKNOWN, "not in the driver table");
    arena_clear(&m.arena);
}

static void pytorch_is_there_or_not(void **state) {
    MACHINE;
    expect(&m, "torch.found", FINDING_OK, "Python 3.11.2 (python3), CUDA 13.0");
    m.facts.torch.state = RULES_TORCH_MISSING;
    m.facts.torch.error = STR("No module named 'torch'");
    assert_true(has(expect(&m, "torch.found", FINDING_WARNING, "No module")->remedy, "CUDA 13.2"));
    assert_null(find(&m, "torch.build"));
    assert_null(find(&m, "card.kernels"));
    m.facts.torch.state = RULES_TORCH_NO_PYTHON;
    expect(&m, "torch.found", FINDING_WARNING, "");
    m.facts.torch.state = RULES_TORCH_HANGS;
    expect(&m, "torch.found", FINDING_PROBLEM, "");
    m.facts.torch.state = RULES_TORCH_UNASKED;
    expect(&m, "torch.found", FINDING_UNKNOWN, "recorded");
    arena_clear(&m.arena);
}

static void pytorch_fits_the_card_or_not(void **state) {
    MACHINE;
    expect(&m, "card.kernels", FINDING_OK, "sm_86"); // 8.6's kernels run on 8.9
    m.supports[0].compute_capability = 61;
    expect(&m, "card.kernels", FINDING_PROBLEM, "6.1");
    m.facts.torch.archs = STR("sm_50 sm_60 sm_90a");
    expect(&m, "card.kernels", FINDING_OK, "sm_60");
    m.supports[0].compute_capability = 121;
    expect(&m, "card.kernels", FINDING_PROBLEM, "12.1");
    m.facts.torch.archs = STR("compute_90");
    expect(&m, "card.kernels", FINDING_OK, "compute_90");
    m.facts.torch.archs = (struct str){0};
    expect(&m, "card.kernels", FINDING_UNKNOWN, "");
    m.facts.torch.cuda = (struct str){0};
    expect(&m, "torch.build", FINDING_PROBLEM, "without CUDA");
    arena_clear(&m.arena);
}

static void pytorch_sees_the_cards_or_not(void **state) {
    MACHINE;
    expect(&m, "torch.cuda", FINDING_OK, "True");
    m.facts.devices.count = 2;
    expect(&m, "torch.cuda", FINDING_NOTE, "1 of the 2");
    m.facts.torch.cuda_available = 0;
    m.facts.torch.cuda_error = STR("driver too old");
    expect(&m, "torch.cuda", FINDING_PROBLEM, "driver too old");
    expect(&m, "torch.compile", FINDING_OK, "Triton");
    m.facts.torch.has_compiler = 0;
    expect(&m, "torch.compile", FINDING_NOTE, "compiler");
    m.facts.torch.has_triton = 0;
    expect(&m, "torch.compile", FINDING_NOTE, "Triton");
    m.facts.torch.version = STR("1.13.1");
    expect(&m, "torch.compile", FINDING_NOTE, "2.0");
    arena_clear(&m.arena);
}

static void memory_of_others_is_named(void **state) {
    MACHINE;
    struct device_card *card = &m.cards[0];
    expect(&m, "card.memory", FINDING_OK, "no other process");
    card->now.used_bytes = 3 * UNIT_GIB;
    card->now.free_bytes = 20 * UNIT_GIB;
    card->has_processes = true;
    expect(&m, "card.memory", FINDING_WARNING, "no process visible to this user or container");
    card->process_count = 2;
    card->processes[0] = (struct device_process){812, "python", 2 * UNIT_GIB, DEVICE_COMPUTE};
    card->processes[1] = (struct device_process){90, "Xorg", -1, DEVICE_GRAPHICS};
    expect(&m, "card.memory", FINDING_WARNING, "python 2.00 GiB (pid 812), Xorg (pid 90)");
    m.facts.own_pid = 812;
    assert_false(has(find(&m, "card.memory")->evidence, "812"));
    card->now.used_bytes = -1;
    expect(&m, "card.memory", FINDING_UNKNOWN, "does not report");
    arena_clear(&m.arena);
}

static void abilities_follow_the_card(void **state) {
    MACHINE;
    assert_str(find(&m, "card.precision")->value, "fp32 tf32 fp16 bf16 fp8");
    m.supports[0] =
        (struct rules_support){.is_known = true, .tier = STR("low_end"), .compute_capability = 61};
    expect(&m, "card.precision", FINDING_NOTE, "no tensor cores");
    assert_str(expect(&m, "card.attention", FINDING_NOTE, "6.1")->value, "memory-efficient");
    expect(&m, "card.compile", FINDING_NOTE, "7.0");
    m.supports[0].has_tensor_cores = true;
    m.supports[0].compute_capability = 75;
    assert_str(find(&m, "card.precision")->value, "fp32 fp16");
    m.supports[0] = (struct rules_support){0};
    expect(&m, "card.precision", FINDING_UNKNOWN, "");
    expect(&m, "card.known", FINDING_NOTE, "not in the catalogue");
    assert_null(find(&m, "card.attention"));
    arena_clear(&m.arena);
}

// Idle GPUs lower their link, so it is judged under load.
static void a_link_is_judged_under_load(void **state) {
    MACHINE;
    struct device_card *card = &m.cards[0];
    assert_null(find(&m, "card.link"));
    card->facts.pcie_generation_max = 4;
    card->facts.pcie_width_max = 16;
    card->now.pcie_generation = 1;
    card->now.pcie_width = 8;
    expect(&m, "card.link", FINDING_OK, "only under load");
    card->now.utilisation = 0.9;
    assert_str(expect(&m, "card.link", FINDING_WARNING, "gen 4 x16")->value, "gen 1 x8");
    card->now.event_reasons = DEVICE_REASON_IDLE;
    expect(&m, "card.link", FINDING_OK, "only under load");
    card->now.pcie_generation = 4;
    card->now.pcie_width = 16;
    expect(&m, "card.link", FINDING_OK, "the most that");
    card->now.pcie_generation = card->facts.pcie_generation_max = 3;
    expect(&m, "card.link", FINDING_NOTE, "gen 4");
    card->is_unified = true;
    assert_null(find(&m, "card.link"));
    arena_clear(&m.arena);
}

static void throttling_has_its_reason(void **state) {
    MACHINE;
    struct device_gauges *g = &m.cards[0].now;
    assert_null(find(&m, "card.clocks"));
    assert_null(find(&m, "card.throttled"));
    g->event_reasons = DEVICE_REASON_IDLE | DEVICE_REASON_APPLICATION_CLOCKS;
    expect(&m, "card.clocks", FINDING_OK, "idle");
    g->event_reasons = DEVICE_REASON_POWER_CAP;
    expect(&m, "card.clocks", FINDING_NOTE, "power limit");
    g->event_reasons =
        DEVICE_REASON_POWER_CAP | DEVICE_REASON_HW_SLOWDOWN | DEVICE_REASON_HW_THERMAL;
    expect(&m, "card.clocks", FINDING_WARNING, "too hot");
    g->power_cap_seconds = 221;
    expect(&m, "card.throttled", FINDING_OK, "power limit 221.0 s");
    g->hw_thermal_seconds = 90;
    expect(&m, "card.throttled", FINDING_NOTE, "hardware thermal 90.0 s");
    arena_clear(&m.arena);
}

static void health_is_judged(void **state) {
    MACHINE;
    struct device_card *card = &m.cards[0];
    static const char *const silent[] = {"card.power", "card.heat",        "card.errors",
                                         "card.rows",  "card.persistence", "card.mode",
                                         "card.mig",   "card.state"};
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++) assert_null(find(&m, silent[i]));
    card->now.power_limit_watts = 300;
    card->facts.power_limit_default_watts = 450;
    expect(&m, "card.power", FINDING_WARNING, "67 % of the default 450 W");
    card->now.temperature_celsius = 60;
    expect(&m, "card.heat", FINDING_OK, "");
    card->now.temperature_celsius = 89;
    expect(&m, "card.heat", FINDING_NOTE, "does not report");
    card->facts.slowdown_celsius = 92;
    expect(&m, "card.heat", FINDING_WARNING, "92 C");
    card->now.ecc_uncorrected = 0;
    card->now.ecc_corrected = 3;
    expect(&m, "card.errors", FINDING_NOTE, "all corrected");
    card->now.ecc_uncorrected = 2;
    expect(&m, "card.errors", FINDING_PROBLEM, "2 uncorrected");
    card->now.remap_pending = 1;
    expect(&m, "card.rows", FINDING_WARNING, "next reset");
    card->now.remap_failed = 1;
    expect(&m, "card.rows", FINDING_PROBLEM, "could not be replaced");
    card->now.remap_failed = 0;
    card->now.recovery_action = 1;
    expect(&m, "card.rows", FINDING_PROBLEM, "recovery action 1");
    card->facts.persistence_mode = 0;
    assert_null(find(&m, "card.persistence")); // a desktop GPU
    m.supports[0].is_server = true;
    expect(&m, "card.persistence", FINDING_NOTE, "");
    card->facts.compute_mode = 3;
    expect(&m, "card.mode", FINDING_NOTE, "one process");
    card->facts.compute_mode = 2;
    expect(&m, "card.mode", FINDING_PROBLEM, "");
    card->is_mig = true;
    expect(&m, "card.mig", FINDING_NOTE, "");
    arena_clear(&m.arena);
}

// A GPU that does not answer: its old figures are not judged.
static void silent_cards_are_said(void **state) {
    MACHINE;
    m.cards[0].now.ecc_uncorrected = 5;
    m.cards[0].state = DEVICE_ASLEEP;
    expect(&m, "card.state", FINDING_NOTE, "");
    assert_null(find(&m, "card.errors"));
    m.cards[0].state = DEVICE_LOST;
    snprintf(m.cards[0].reason, sizeof m.cards[0].reason, "fell off the bus");
    expect(&m, "card.state", FINDING_PROBLEM, "fell off the bus");
    m.cards[0].state = DEVICE_HANGS;
    expect(&m, "card.state", FINDING_PROBLEM, "");
    m.facts.devices.left_out = STR("GPU 1: lost");
    expect(&m, "driver.left-out", FINDING_PROBLEM, "GPU 1");
    m.facts.devices.standin = STR("fake driver");
    expect(&m, "driver.standin", FINDING_NOTE, "fake");
    arena_clear(&m.arena);
}

static void the_host_is_judged(void **state) {
    MACHINE;
    assert_int_equal(rules_workers(&m.facts), 12); // 15, but no more than 12
    expect(&m, "host.shm", FINDING_OK, "12 workers");
    m.facts.shm_bytes = m.facts.shm_free_bytes = 64 * UNIT_MIB;
    assert_true(has(expect(&m, "host.shm", FINDING_WARNING, "")->remedy, "--shm-size"));
    m.facts.workers = 0; // nobody uses it
    expect(&m, "host.shm", FINDING_OK, "0 workers");
    m.facts.shm_bytes = m.facts.shm_free_bytes = 2 * UNIT_GIB;
    m.facts.workers = 8;
    m.facts.batch_bytes = 256 * UNIT_MIB;
    expect(&m, "host.shm", FINDING_WARNING, "4.00 GiB");
    m.facts.workers = 32;
    expect(&m, "host.cores", FINDING_WARNING, "asks for 32 workers");
    m.facts.workers = -1;
    m.facts.cpu.available_bytes = UNIT_GIB;
    expect(&m, "host.memory", FINDING_WARNING, "1.00 GiB available");
    assert_int_equal(rules_workers(&m.facts), 2);
    m.facts.cpu.total_bytes = 16 * UNIT_GIB;
    expect(&m, "host.memory-cards", FINDING_WARNING, "16.0 GiB of memory for 24.0 GiB");
    expect(&m, "host.group", FINDING_NOTE, "16.0 GiB of the machine's 64.0 GiB memory");
    m.facts.cpu.quota_cores = 1.5;
    expect(&m, "host.group", FINDING_NOTE, "2 of its 16 cores");
    m.facts.devices.count = 4;
    expect(&m, "host.cores", FINDING_WARNING, "4 GPUs");
    m.facts.cpu = (struct device_cpu){STR("CPU"), 0, -1, -1, (double)NAN, {-1}};
    expect(&m, "host.memory", FINDING_UNKNOWN, "");
    assert_null(find(&m, "host.cores"));
    assert_int_equal(rules_workers(&m.facts), -1);
    arena_clear(&m.arena);
}

static void link_up(struct machine *m, int card, int up, int down) {
    struct device_spot *s = &m->facts.devices.topology.spots[card];
    s->index = card;
    for (int i = 0; i < DEVICE_NVLINKS; i++) {
        s->nvlinks[i] = (signed char)(i < up          ? DEVICE_NVLINK_SWITCH
                                      : i < up + down ? DEVICE_NVLINK_DOWN
                                                      : DEVICE_NVLINK_NONE);
    }
}

static void links_that_are_down_are_found(void **state) {
    MACHINE;
    m.facts.devices.count = m.facts.devices.topology.count = 2;
    link_up(&m, 0, 18, 0);
    link_up(&m, 1, 18, 0);
    expect(&m, "card.nvlink", FINDING_OK, "");
    link_up(&m, 0, 16, 2);
    expect(&m, "card.nvlink", FINDING_WARNING, "another GPU of this machine has 18");
    // Boards without a bridge, and others of another name, are no fault.
    link_up(&m, 0, 0, 4);
    link_up(&m, 1, 0, 4);
    assert_null(find(&m, "card.nvlink"));
    link_up(&m, 0, 4, 0);
    link_up(&m, 1, 18, 0);
    snprintf(m.cards[1].facts.name, sizeof m.cards[1].facts.name, "another");
    expect(&m, "card.nvlink", FINDING_OK, "");
    arena_clear(&m.arena);
}

static void access_between_cards_is_told(void **state) {
    MACHINE;
    struct device_topology *t = &m.facts.devices.topology;
    m.facts.devices.count = t->count = 2;
    t->pairs[0][1] = t->pairs[1][0] = (struct device_pair){-1, -1};
    assert_null(find(&m, "host.p2p"));
    t->pairs[0][1].access = 0;
    expect(&m, "host.p2p", FINDING_OK, "");
    t->pairs[0][1].access = 2;
    expect(&m, "host.p2p", FINDING_NOTE, "NCCL copies through the memory of the CPU");
    arena_clear(&m.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_that_are_down_are_found),
        cmocka_unit_test(access_between_cards_is_told),
        cmocka_unit_test(a_healthy_machine_is_fine),
        cmocka_unit_test(versions_are_read),
        cmocka_unit_test(no_driver_is_an_answer),
        cmocka_unit_test(drivers_limit_pytorch),
        cmocka_unit_test(pytorch_is_there_or_not),
        cmocka_unit_test(pytorch_fits_the_card_or_not),
        cmocka_unit_test(pytorch_sees_the_cards_or_not),
        cmocka_unit_test(memory_of_others_is_named),
        cmocka_unit_test(abilities_follow_the_card),
        cmocka_unit_test(a_link_is_judged_under_load),
        cmocka_unit_test(throttling_has_its_reason),
        cmocka_unit_test(health_is_judged),
        cmocka_unit_test(silent_cards_are_said),
        cmocka_unit_test(the_host_is_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
