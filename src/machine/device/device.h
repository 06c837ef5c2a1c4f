// SPDX-License-Identifier: Apache-2.0
// What this machine has: its GPUs and their memory now, asked of the driver, or read from the
// folder of a recorded machine (doc/formats/machine.md). Nothing here needs a driver to be built
// or to run.
#pragma once

#include "base/fail.h"
#include "base/str.h"

// One GPU, or one MIG instance of a GPU that is divided (the GPU itself is then not listed,
// because no program can compute on it). Bytes are -1 where unknown (memory shared with the
// CPU: GB10, Jetson). total = used + reserved + free.
struct device {
    int index;       // the driver's number of the GPU; instances of a GPU share it
    struct str name; // as the driver prints it; see gpu_of_name
    struct str uuid; // empty: unknown
    int64_t total_bytes;
    // What programs hold, ours and others'. Without the driver's reserve, except where the driver
    // is too old to tell it apart: then reserved_bytes is -1 and used_bytes includes it.
    int64_t used_bytes;
    int64_t reserved_bytes;
    int64_t free_bytes;
    bool is_mig;
};

// Texts are one line for people; all are empty when there is nothing to say.
struct device_list {
    struct device *items;
    ptrdiff_t count, capacity;
    struct str driver_version;
    struct str why_none;   // no driver, no permission, …; empty when devices were found
    struct str left_out;   // GPUs that are there but cannot be used: lost, not permitted
    bool driver_is_absent; // there is no library of the driver at all
    struct str standin;    // set: the driver is a fake for tests and demos; every view says so
};

// What to do about a why_none; NULL: nothing is known.
const char *device_code_remedy(struct str why_none);

// The line that every view of such a machine begins with; empty where `standin` is.
struct str device_standin_note(struct arena *a, struct str standin);

// Before the names of other machines, separated by a space, whose servers are asked instead of a
// driver; for a monitor only.
#define DEVICE_REMOTE "http:"

// The devices of this machine, or of the recorded one in the folder `machine` (NULL: this one).
// No driver is an answer (0 devices, why_none), not an error; so is a driver that has not answered
// after 3 s. FAIL_INPUT: the recording is missing or broken. Lives in the arena.
int device_list(struct arena *a, const char *machine, struct device_list *ret_list,
                struct fail *why);

// The GPUs of the list that --gpu-ids names, "0,2": their places in it, in that order. By the
// driver's number, or by its UUID or the beginning of one, as CUDA takes it. FAIL_USAGE: one that
// is not there, or there twice; FAIL_MACHINE: there are none.
int device_ids_find(struct arena *a, const struct device_list *devices, const char *ids,
                    int **ret_places, ptrdiff_t *ret_count, struct fail *why);

// How the GPUs of a machine are joined: what `nvidia-smi topo -m` shows. NVLink and the way over
// PCIe by the driver, the NUMA node and its cores by /sys.

// More than that in one machine are not asked; NVML_NVLINK_MAX_LINKS.
enum { DEVICE_TOPOLOGY_GPUS = 16, DEVICE_NVLINKS = 18 };

// Where an NVLink leads; from 0 on it is a place in the topology.
enum {
    DEVICE_NVLINK_NONE = -4, // the GPU has no such link, or does not tell
    DEVICE_NVLINK_DOWN = -3,
    DEVICE_NVLINK_OTHER = -2, // a CPU (POWER), or what is not told
    DEVICE_NVLINK_SWITCH = -1,
};

struct device_spot {
    int index;     // the driver's number of the GPU
    int numa_node; // -1: unknown, or the machine has but one
    char cpus[64]; // near it: "0-31,64-95"; empty: unknown
    signed char nvlinks[DEVICE_NVLINKS];
};

struct device_pair {
    int path;   // nvmlGpuTopologyLevel_t: 10 within a switch … 50 across NUMA nodes; -1: unknown
    int access; // nvmlGpuP2PStatus_t of reading the other's memory: 0 can; -1: unknown
};

struct device_topology {
    int count; // 0: not asked
    struct device_spot spots[DEVICE_TOPOLOGY_GPUS];
    struct device_pair pairs[DEVICE_TOPOLOGY_GPUS][DEVICE_TOPOLOGY_GPUS];
};

// The NVLinks of the GPU that are up, and those that are there.
int device_topology_up(const struct device_spot *spot);
int device_topology_all(const struct device_spot *spot);
// Those between the two GPUs, directly or over a switch that both are on.
int device_topology_between(const struct device_topology *t, int one, int other);
// As nvidia-smi says it: "NV18", "SYS", …; empty: unknown.
struct str device_topology_word(struct arena *a, const struct device_topology *t, int one,
                                int other);
// What such a word means; NULL: there is none of that number. NVLink is number 0.
const char *device_topology_meaning(int number, const char **ret_word);

// All that can be read of a machine's GPUs, once and over time: a monitor asks every GPU of a
// machine some times a second; reading never blocks, also when a GPU hangs. For the verbs that
// look at the machine (check, watch, serve); a single GPU during a trial is a sampler's.

// Unknown is NaN (double), -1 (whole numbers) or an empty text; never 0.

enum { DEVICE_PROCESSES = 32 }; // of one GPU that are kept; the rest is only counted

enum device_state {
    DEVICE_WAITS, // not asked yet
    DEVICE_ANSWERS,
    DEVICE_ASLEEP, // a laptop's GPU that is switched off; asking would wake it
    DEVICE_LOST,   // the driver has lost it; may come back after a reset
    DEVICE_HANGS,  // it, or the driver, did not answer in time; the figures are those of before
    DEVICE_UNREACHABLE, // another machine's, whose serve does not answer
};
enum { DEVICE_STATES = DEVICE_UNREACHABLE + 1 };
const char *device_state_name(enum device_state state); // "answers", "lost", …

// What does not change while we watch; settings are as they were at the beginning.
struct device_facts {
    char name[96], uuid[96];
    char pci_bus_id[32]; // "00000000:01:00.0"
    char vbios[32];
    int64_t compute_major, compute_minor; // capability 8.6 is 8 and 6
    int64_t cores, sms;                   // CUDA cores; multiprocessors
    int64_t memory_bus_bits;
    double power_limit_default_watts, power_limit_min_watts, power_limit_max_watts;
    int64_t pcie_generation_max, pcie_width_max; // of GPU and slot together
    double sm_clock_max_mhz, memory_clock_max_mhz;
    double slowdown_celsius, shutdown_celsius, memory_max_celsius; // thresholds
    int64_t ecc_mode, persistence_mode, mig_mode;                  // 0 off, 1 on
    int64_t compute_mode; // 0 default, 2 prohibited, 3 one process
};

// NVML's bits of event_reasons. Idle and application clocks are no trouble.
enum {
    DEVICE_REASON_IDLE = 0x1,
    DEVICE_REASON_APPLICATION_CLOCKS = 0x2,
    DEVICE_REASON_POWER_CAP = 0x4, // usual at full load
    DEVICE_REASON_HW_SLOWDOWN = 0x8,
    DEVICE_REASON_SYNC_BOOST = 0x10,
    DEVICE_REASON_SW_THERMAL = 0x20,
    DEVICE_REASON_HW_THERMAL = 0x40,
    DEVICE_REASON_POWER_BRAKE = 0x80,
    DEVICE_REASON_DISPLAY_CLOCKS = 0x100,
};

struct device_gauges {
    int64_t at_ns; // when it was read (os_now_ns); 0: never
    // As struct device: used is without the driver's reserve unless reserved is -1. Of a GPU that
    // shares the CPU's memory (is_unified): the machine's, free being what is available.
    int64_t total_bytes, used_bytes, reserved_bytes, free_bytes;
    double utilisation; // share of the time in which a kernel ran, 0 … 1
    double memory_utilisation, encoder_utilisation, decoder_utilisation;
    // Only with wants_profile, Hopper and newer: share of the time in which a multiprocessor had
    // work, mean of all; how full of warps they were; busy tensor cores; busy memory interface.
    double sm_active, sm_occupancy, tensor_active, dram_active;
    double temperature_celsius, memory_temperature_celsius;
    double fan; // intended, 0 … 1
    double power_watts, power_average_watts, power_instant_watts;
    double power_limit_watts; // enforced now
    double energy_joules;     // counter since the driver was loaded; a decrease is a reload
    double sm_clock_mhz, memory_clock_mhz;
    int64_t event_reasons; // why the clocks are not higher: DEVICE_REASON_*
    // Counters of the time throttled, since the driver was loaded. Differences give the share.
    double power_cap_seconds, sync_boost_seconds, sw_thermal_seconds, hw_thermal_seconds,
        power_brake_seconds;
    int64_t ecc_corrected, ecc_uncorrected; // since the driver was loaded
    int64_t remapped_rows, remap_pending, remap_failed;
    int64_t recovery_action;                 // 0 none, 1 reset the GPU, 2 reboot, 3 drain, …
    int64_t pcie_generation, pcie_width;     // of the link now; lower when idle to save power
    int64_t pcie_replays;                    // counter of packets sent again
    double pcie_tx_bytes_s, pcie_rx_bytes_s; // only with wants_pcie_throughput or wants_profile
    int64_t xid; // the last error number (XID) that was seen since we watch; -1: none was
};

enum device_process_kind { DEVICE_COMPUTE = 1, DEVICE_GRAPHICS = 2, DEVICE_MPS = 4 };
enum { DEVICE_PROCESS_KINDS = 3 };
extern const struct device_kind_name { // as recordings and documents call them
    int kind;
    const char *name;
} device_process_kinds[DEVICE_PROCESS_KINDS];
struct device_process {
    int64_t pid;        // the host's; a container sees others
    char name[48];      // empty: another container's, or gone
    int64_t used_bytes; // -1: not told (WSL, Windows)
    int kinds;          // of enum device_process_kind, together
    double utilisation; // share of the last seconds in which its kernels ran; NaN: not told
    // By /proc; empty, -1 and NaN where it is not visible from here.
    char user[24], command[160]; // the command without its secrets (out.h)
    int64_t host_bytes;          // resident
    double age_s;
    int64_t start_ticks; // as struct os_stat: tells it from a later one of the same number
};

// One GPU, or one MIG instance. What only the whole GPU has (power, temperature, clocks,
// counters, link) is the GPU's for each of its instances: do not add those up by instance.
struct device_card {
    int index; // the driver's number of the GPU; instances of a GPU share it
    bool is_mig, is_unified;
    enum device_state state;
    char reason[200]; // of a state other than answers, for people
    struct device_facts facts;
    struct device_gauges now;
    int process_count;      // in the list
    int processes_unlisted; // more than those
    bool has_processes;     // false: not told, the list is empty
    struct device_process processes[DEVICE_PROCESSES];
};

struct device_snapshot {
    enum device_state state;   // of the driver: answers also where it found no GPU
    struct device_card *cards; // in the order of device_list
    int count;
    struct str driver_version;
    struct str cuda_version; // the newest CUDA that the driver supports: "12.4"
    bool is_wsl;
    struct str why_none, left_out, standin; // as in struct device_list
    bool driver_is_absent;
    struct device_topology topology; // with wants_topology
    // Of other machines: {"runs": […], "runs_unlisted": N, "ours_bytes": […]} in JSON, as their
    // servers have it (doc/formats/watch.md), with the name of the machine as "host" and the place
    // in `cards` as "card"; the bytes of each card. Empty: this machine.
    struct str told;
};

// How to watch; a zeroed one is: every second, nothing that costs much, at the speed of life.
struct device_watching {
    int interval_ms;
    bool wants_pcie_throughput; // blocks 20 ms a GPU and direction
    double speed;               // of a recording: 10 plays it ten times as fast
    bool wants_profile;         // the performance monitor (GPM): cheap, from the second look on
    bool wants_topology;        // once, after the first look: some calls a pair of GPUs
    int deadline_ms;            // a GPU that takes longer to answer is held to hang; 0: 3 s
};

struct device_monitor; // private

// Starts asking about all GPUs of the machine (as for device_list). Returns when every GPU was
// asked once, or after 3 s. No driver and a driver that hangs are answers (device_monitor_read
// tells), not errors. FAIL_INPUT: the recording is missing or broken; FAIL_MACHINE: the system
// gives no thread.
int device_monitor_open(struct arena *a, const char *machine, const struct device_watching *how,
                        struct device_monitor **ret_monitor, struct fail *why);
// What is known now; never waits for a GPU. In a loop, rewind the arena. One reader at a time.
void device_monitor_read(struct arena *a, struct device_monitor *m,
                         struct device_snapshot *ret_snapshot);
// Stops the thread; one that hangs in the driver is left behind.
void device_monitor_close(struct device_monitor *m);

// The machine's GPUs now: the monitor opened, read once and closed.
int device_snapshot_take(struct arena *a, const char *machine, struct device_snapshot *ret_snapshot,
                         struct fail *why);

// Watches for `duration_ms` (0: one look) and writes the folder of a recorded machine
// (doc/formats/machine.md), which is made if need be: devices.json and the files of /proc and /sys
// that say what memory the CPU has. uuids are replaced; serial numbers, users and host names
// are never read.
int device_record(struct arena *a, const char *machine, const char *folder, int duration_ms,
                  int interval_ms, struct fail *why);

// Every number of a GPU and its names: for those who write or read all of them.
struct device_field {
    const char *group; // "memory", "gauges", "facts": the object of devices.json and of documents
    const char *key;   // in recordings, in the driver's unit
    const char *name;  // in documents (doc/formats/watch.md), in ours: the member's
    size_t offset;     // in struct device_card
    bool is_whole;     // an int64_t, else a double
    double factor;     // from the driver's unit to ours
    double most;       // more than this, in the driver's unit, is no value
    double least;
    bool is_of_card; // instances of a divided GPU have it from the GPU
    // Prometheus' name behind "batchfit_gpu_", in its base units; NULL: none. Ends in _total: a
    // counter. Series of one metric stand together.
    const char *metric;
    const char *label; // 'reason="heat"'; NULL: none
    const char *help;
};
extern const struct device_field device_fields[];
extern const int device_field_count;
// The row of a field that the table has.
const struct device_field *device_field_at(size_t offset);
// In our unit; NaN: unknown.
double device_field_value(const struct device_card *card, const struct device_field *field);
// A value of the driver, in its unit; one that is not a figure makes the field unknown.
void device_field_set(struct device_card *card, const struct device_field *field, double value);
// A GPU of which nothing is known.
struct device_card device_card_unknown(void);

// One GPU over time: a thread asks the driver some times a second; reading never blocks, also when
// the driver hangs. Used while a trial runs. Its thread is a monitor's (monitor.c).

// Starts asking about the device at the place `card` of device_list's items, every
// `how->interval_ms`. `machine` as for device_list; a recording plays its values over time, from
// now on. Returns after the first sample, or after 3 s without one. FAIL_MACHINE: no driver, no
// such GPU, or a driver that hangs.
int device_sampler_open(struct arena *a, const char *machine, int card,
                        const struct device_watching *how, struct device_monitor **ret_sampler,
                        struct fail *why);
// The newest sample, and what was the most since the last reset.
struct device_gauges device_sampler_read(const struct device_monitor *s);
struct device_peaks {
    int64_t used_bytes;      // -1: nothing was read
    double utilisation_mean; // over the samples since the reset
    int samples;
};
struct device_peaks device_sampler_peaks(const struct device_monitor *s);
void device_sampler_reset(struct device_monitor *s);

// --demo: the machine that is shipped inside the program, for a look at the views without a GPU.
// Its values are invented (tools/demo-machine); it says so itself, so every view does.

// What --machine and --demo say together, the latter's folder unpacked into the user's cache; NULL
// is this machine. FAIL_USAGE: both were given.
int device_demo_or_machine(struct arena *a, bool demo, const char *machine, const char **ret_folder,
                           struct fail *why);

// The CPU as a device to train on: its name, its cores, and the memory that a training may
// have, by /proc and the control group that we are in; and what it does over time. Nothing here
// blocks for longer than a read of /proc.

// `root` is put before /proc and /sys: "" is this machine, a folder is a recorded one.

// What /proc/meminfo says of the whole machine. -1: unknown.
struct device_meminfo {
    int64_t total_bytes, available_bytes, swap_total_bytes, swap_free_bytes;
};
struct device_meminfo device_meminfo_read(struct arena *a, const char *root);

struct device_cpu {
    struct str name;         // "AMD EPYC 7763 64-Core Processor"; "CPU" where /proc does not say
    int cores;               // that we may run on
    int64_t total_bytes;     // of the machine, or the control group's limit where that is less
    int64_t available_bytes; // without swapping; within that limit; -1: unknown
    double quota_cores;      // the control group's limit, in CPUs; NaN: none, or unknown
    struct device_meminfo machine; // whatever the control group allows
};

void device_cpu_read(struct arena *a, const char *root, struct device_cpu *ret_cpu);

// NaN and -1: unknown. Shares and rates are of the time since the look before; unknown in the
// first.
struct device_cpu_gauges {
    int64_t at_ns;                        // os_now_ns
    int cores;                            // that we may run on
    double utilisation;                   // of all of the machine's cores, 0 … 1
    double io_wait;                       // share of the time in which they waited for a disk
    double load;                          // tasks that run or want to, mean of a minute
    int64_t total_bytes, available_bytes; // as struct device_cpu
    int64_t swap_total_bytes, swap_used_bytes;
    double group_cpus;      // the control group's limit, in CPUs; NaN: none
    double group_used_cpus; // what it uses
    double group_throttled; // share of the time in which that limit slowed it down
    double energy_joules;   // counter of the packages and the memory, from our first look on
    double power_watts;
    double temperature_celsius; // the hottest of the packages
    double memory_stalled;      // share of the last 10 s in which some task waited for memory (PSI)
};

struct device_cpu_watch; // private
// `root` as above. Reading twice within a millisecond tells no rates.
struct device_cpu_watch *device_cpu_open(struct arena *a, const char *root);
void device_cpu_look(struct device_cpu_watch *w, struct device_cpu_gauges *ret_gauges);
