// SPDX-License-Identifier: Apache-2.0
// /metrics: the CPU, the runs, and the server itself.
#include "verbs/serve/serve.h"

#include "base/os.h"

#include <dirent.h>
#include <math.h>
#include <sys/resource.h>
#include <unistd.h>

// --- The CPU

#define CPU(member) offsetof(struct device_cpu_gauges, member), false
#define CPU_WHOLE(member) offsetof(struct device_cpu_gauges, member), true
static const struct serve_metric_row of_cpu[] = {
    {"batchfit_host_cpu_utilization_ratio", SERVE_METRIC_GAUGE, NULL, CPU(utilisation), 1,
     "Share of time in which the cores were busy."},
    {"batchfit_host_io_wait_ratio", SERVE_METRIC_GAUGE, NULL, CPU(io_wait), 1,
     "Share of time in which the cores waited for a disk."},
    {"batchfit_host_load1", SERVE_METRIC_GAUGE, NULL, CPU(load), 1,
     "Tasks that run or are runnable, mean over a minute."},
    {"batchfit_host_memory_total_bytes", SERVE_METRIC_GAUGE, NULL, CPU_WHOLE(total_bytes), 1,
     "Memory of the machine, or the control group's limit if lower."},
    {"batchfit_host_memory_available_bytes", SERVE_METRIC_GAUGE, NULL, CPU_WHOLE(available_bytes),
     1, "Memory available without swapping."},
    {"batchfit_host_swap_total_bytes", SERVE_METRIC_GAUGE, NULL, CPU_WHOLE(swap_total_bytes), 1,
     "Total swap."},
    {"batchfit_host_swap_used_bytes", SERVE_METRIC_GAUGE, NULL, CPU_WHOLE(swap_used_bytes), 1,
     "Used swap."},
    {"batchfit_host_cgroup_limit_cpus", SERVE_METRIC_GAUGE, NULL, CPU(group_cpus), 1,
     "CPUs that the control group allows; absent if unlimited."},
    {"batchfit_host_cgroup_used_cpus", SERVE_METRIC_GAUGE, NULL, CPU(group_used_cpus), 1,
     "CPUs that the control group uses."},
    {"batchfit_host_cgroup_throttled_ratio", SERVE_METRIC_GAUGE, NULL, CPU(group_throttled), 1,
     "Share of time in which that limit throttled it."},
    {"batchfit_host_cpu_energy_joules_total", SERVE_METRIC_COUNTER, NULL, CPU(energy_joules), 1,
     "Energy of the CPU packages and the memory since serve was started."},
    {"batchfit_host_cpu_power_watts", SERVE_METRIC_GAUGE, NULL, CPU(power_watts), 1,
     "Power of the CPU packages and the memory."},
    {"batchfit_host_cpu_temperature_celsius", SERVE_METRIC_GAUGE, NULL, CPU(temperature_celsius), 1,
     "Temperature of the hottest CPU package."},
    {"batchfit_host_memory_stalled_ratio", SERVE_METRIC_GAUGE, NULL, CPU(memory_stalled), 1,
     "Share of the last 10 s in which a task waited for memory."},
    SERVE_METRIC_ROWS_END,
};

static void add_driver(struct arena *a, struct serve_metric_sheet *sheet,
                       const struct device_snapshot *d) {
    struct buf labels = buf_new(a);
    serve_metric_add(
        sheet, "batchfit_driver_up", SERVE_METRIC_GAUGE,
        "1: the GPU driver answers, even without a GPU; 0: there is none, or it hangs.",
        (struct str){0}, d->state == DEVICE_ANSWERS && d->why_none.len == 0);
    if (d->driver_version.len > 0) {
        serve_metric_label(&labels, "version", d->driver_version);
        if (d->cuda_version.len > 0) serve_metric_label(&labels, "cuda", d->cuda_version);
        serve_metric_add(sheet, "batchfit_driver_info", SERVE_METRIC_GAUGE,
                         "The GPU driver and the newest CUDA it supports; always 1.",
                         buf_str(&labels), 1);
    }
    serve_metric_add(sheet, "batchfit_gpus", SERVE_METRIC_GAUGE,
                     "GPUs and GPU instances in the list.", (struct str){0}, d->count);
    if (d->standin.len == 0) return;
    struct buf what = buf_new(a);
    serve_metric_label(&what, "what", d->standin);
    serve_metric_add(sheet, "batchfit_standin_info", SERVE_METRIC_GAUGE,
                     "1: the machine is simulated. Absent for a real one.", buf_str(&what), 1);
}

void serve_metrics_of_host(struct arena *a, struct serve_metric_sheet *sheet, struct serve *s) {
    add_driver(a, sheet, s->view->devices);
    for (const struct serve_metric_row *row = of_cpu; s->view->has_cpu && row->name; row++) {
        serve_metric_add_row(sheet, row, (struct str){0}, &s->view->cpu);
    }
}

// --- Runs

#define RUN(member) offsetof(struct observe_run, member), false
#define RUN_WHOLE(member) offsetof(struct observe_run, member), true
#define PHASE(name)                                                                               \
    {                                                                                             \
        "batchfit_run_phase_duration_seconds", SERVE_METRIC_GAUGE, "phase=\"" #name "\"",         \
            RUN(phases.name##_ms), MS,                                                            \
            "Time of a step by phase, mean over the last steps; the phases add up to the step's " \
            "duration."                                                                           \
    }
static const double MS = 1e-3;
static const struct serve_metric_row of_run[] = {
    {"batchfit_run_batch_size", SERVE_METRIC_GAUGE, NULL, RUN_WHOLE(batch), 1,
     "Samples per micro-batch."},
    {"batchfit_run_accumulation", SERVE_METRIC_GAUGE, NULL, RUN_WHOLE(accumulation), 1,
     "Micro-batches per step."},
    {"batchfit_run_ranks", SERVE_METRIC_GAUGE, NULL, RUN_WHOLE(ranks), 1,
     "Processes of the training."},
    {"batchfit_run_steps_total", SERVE_METRIC_COUNTER, NULL, RUN_WHOLE(steps_done), 1,
     "Optimizer steps."},
    {"batchfit_run_samples_total", SERVE_METRIC_COUNTER, NULL, RUN_WHOLE(samples_done), 1,
     "Samples trained on, all ranks."},
    {"batchfit_run_alloc_retries_total", SERVE_METRIC_COUNTER, NULL, RUN_WHOLE(alloc_retries), 1,
     "Times the framework had to empty its cache to continue."},
    {"batchfit_run_samples_per_second", SERVE_METRIC_GAUGE, NULL, RUN(samples_per_s), 1,
     "Throughput over the last steps, all ranks."},
    {"batchfit_run_samples_per_joule", SERVE_METRIC_GAUGE, NULL, RUN(samples_per_joule), 1,
     "Samples per joule of the GPU, over the last steps."},
    {"batchfit_run_step_duration_seconds", SERVE_METRIC_GAUGE, NULL, RUN(phases.total_ms), MS,
     "Time per step, mean over the last steps."},
    STEP_PARTS(PHASE),
    {"batchfit_run_predicted_peak_bytes", SERVE_METRIC_GAUGE, NULL, RUN_WHOLE(predicted_peak_bytes),
     1, "Predicted GPU memory."},
    {"batchfit_run_predicted_upper_bytes", SERVE_METRIC_GAUGE, NULL,
     RUN_WHOLE(predicted_upper_bytes), 1, "Upper end of the predicted band."},
    {"batchfit_run_peak_bytes", SERVE_METRIC_GAUGE, NULL, RUN_WHOLE(peak_bytes), 1,
     "Most GPU memory held by the run so far."},
    SERVE_METRIC_ROWS_END,
};

// Model, verb and GPU tell a run: no process ids, which would make new series for ever.
static struct str run_labels(struct arena *a, const struct observe_view *view,
                             const struct observe_run *r) {
    struct buf labels = buf_new(a);
    if (r->model.len > 0) serve_metric_label(&labels, "model", r->model);
    if (r->verb.len > 0) serve_metric_label(&labels, "verb", r->verb);
    serve_metric_label_card(a, &labels, view, r->card);
    return buf_str(&labels);
}

void serve_metrics_of_runs(struct arena *a, struct serve_metric_sheet *sheet,
                           const struct observe_view *view) {
    struct str labels[OBSERVE_RUNS];
    const struct observe_run *runs[OBSERVE_RUNS];
    int count = 0, alive = 0;
    for (int i = 0; i < view->run_count; i++) {
        const struct observe_run *r = &view->runs[i];
        if (r->state == OBSERVE_RUN_ENDED) continue;
        alive++;
        struct str label = run_labels(a, view, r);
        bool is_double = count == OBSERVE_RUNS; // two of a kind: the first speaks, all are counted
        for (int k = 0; k < count; k++) is_double |= str_equal(labels[k], label);
        if (is_double) continue;
        runs[count] = r;
        labels[count++] = label;
    }
    serve_metric_add(sheet, "batchfit_runs", SERVE_METRIC_GAUGE, "Watched batchfit runs.",
                     (struct str){0}, alive);
    for (const struct serve_metric_row *row = of_run; row->name; row++) {
        for (int i = 0; i < count; i++) serve_metric_add_row(sheet, row, labels[i], runs[i]);
    }
}

// --- The server itself

static void add_process(struct serve_metric_sheet *sheet) {
    ARENA_AUTO scratch = {0};
    struct rusage used = {0};
    struct str text = {0};
    int64_t pages = -1, files = 0;
    if (os_read(&scratch, "/proc/self/statm", 4096, &text, NULL, NULL) == 0) {
        str_cut(&text, ' ');
        if (!str_to_i64(str_cut(&text, ' '), &pages)) pages = -1;
    }
    serve_metric_add(sheet, "batchfit_process_resident_memory_bytes", SERVE_METRIC_GAUGE,
                     "Memory of this server.", (struct str){0},
                     pages < 0 ? (double)NAN : (double)pages * (double)sysconf(_SC_PAGESIZE));
    if (getrusage(RUSAGE_SELF, &used) == 0) {
        double seconds = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                         (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
        serve_metric_add(sheet, "batchfit_process_cpu_seconds_total", SERVE_METRIC_COUNTER,
                         "CPU time of this server.", (struct str){0}, seconds);
    }
    DIR *folder = opendir("/proc/self/fd");
    while (folder && readdir(folder)) files++;
    if (folder) closedir(folder);
    serve_metric_add(sheet, "batchfit_process_open_fds", SERVE_METRIC_GAUGE,
                     "Open files of this server.", (struct str){0},
                     folder ? (double)(files - 3) : (double)NAN); // . .. and itself
}

static void add_http(struct arena *a, struct serve_metric_sheet *sheet, struct http_counts c) {
    static const char *const codes[] = {NULL, NULL, "2xx", "3xx", "4xx", "5xx"};
    for (int i = 2; i <= 5; i++) {
        serve_metric_add(sheet, "batchfit_http_requests_total", SERVE_METRIC_COUNTER,
                         "Requests answered, by class of status.",
                         str_format(a, "code=\"%s\"", codes[i]), (double)c.answers[i]);
    }
    serve_metric_add(sheet, "batchfit_http_connections_total", SERVE_METRIC_COUNTER,
                     "Connections accepted.", (struct str){0}, (double)c.connections);
    serve_metric_add(sheet, "batchfit_http_connections", SERVE_METRIC_GAUGE, "Open connections.",
                     (struct str){0}, c.connections_now);
    serve_metric_add(sheet, "batchfit_http_streams", SERVE_METRIC_GAUGE,
                     "Clients of the event stream.", (struct str){0}, c.streams_now);
    serve_metric_add(sheet, "batchfit_http_timeouts_total", SERVE_METRIC_COUNTER,
                     "Connections closed for being idle.", (struct str){0}, (double)c.timed_out);
    serve_metric_add(sheet, "batchfit_http_put_out_total", SERVE_METRIC_COUNTER,
                     "Connections closed to make room for others.", (struct str){0},
                     (double)c.put_out);
    serve_metric_add(sheet, "batchfit_http_streams_dropped_total", SERVE_METRIC_COUNTER,
                     "Clients of the event stream that did not keep up.", (struct str){0},
                     (double)c.streams_dropped);
}

void serve_metrics_of_serve(struct arena *a, struct serve_metric_sheet *sheet, struct serve *s) {
    serve_metric_add(sheet, "batchfit_build_info", SERVE_METRIC_GAUGE, "This program; always 1.",
                     STR("version=\"" BATCHFIT_VERSION "\""), 1);
    serve_metric_add(sheet, "batchfit_interval_seconds", SERVE_METRIC_GAUGE,
                     "Interval between readings.", (struct str){0}, s->watching.interval_ms / 1e3);
    serve_metric_add(sheet, "batchfit_readings_total", SERVE_METRIC_COUNTER,
                     "Readings of the machine.", (struct str){0}, (double)s->view->readings);
    serve_metric_add(sheet, "batchfit_late_readings_total", SERVE_METRIC_COUNTER,
                     "Readings of a GPU later than twice the interval.", (struct str){0},
                     (double)s->view->late_readings);
    serve_metric_add(sheet, "batchfit_failed_readings_total", SERVE_METRIC_COUNTER,
                     "Readings with a lost or hung GPU, summed over the GPUs.", (struct str){0},
                     (double)s->own.failed_readings);
    serve_metric_add(sheet, "batchfit_last_reading_timestamp_seconds", SERVE_METRIC_GAUGE,
                     "Time of the last reading.", (struct str){0}, (double)s->view->at_ms / 1e3);
    serve_metric_add(sheet, "batchfit_metrics_render_seconds", SERVE_METRIC_GAUGE,
                     "Time to write this text.", (struct str){0}, s->own.metrics_seconds);
    serve_metric_add(sheet, "batchfit_metrics_rendered_total", SERVE_METRIC_COUNTER,
                     "Times this text was written: at most once per reading.", (struct str){0},
                     (double)s->own.metrics_rendered);
    add_http(a, sheet, http_count(s->http));
    add_process(sheet);
}
