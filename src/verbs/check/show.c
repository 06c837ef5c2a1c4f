// SPDX-License-Identifier: Apache-2.0
// The answer of check: the machine, what is to be said about it, what to set; as text and as a
// document (doc/formats/check.md).
#include "verbs/check/check.h"

#include "base/say.h"
#include "base/unit.h"
#include "job/answer/answer.h"
#include "view/show/show.h"

#include <math.h>

static const enum show_tone tones[] = {SHOW_GOOD, SHOW_PLAIN, SHOW_DIM, SHOW_WARN, SHOW_BAD};

bool check_is_well(const struct check *c) {
    for (ptrdiff_t i = 0; i < c->findings.count; i++) {
        enum finding_severity severity = c->findings.items[i].severity;
        if (severity == FINDING_PROBLEM || severity == FINDING_WARNING) return false;
    }
    return true;
}

// --- The machine ---------------------------------------------------------------------------------

static struct str bytes_text(struct arena *a, int64_t bytes) {
    return bytes >= 0 ? unit_bytes(a, bytes) : (struct str){0};
}

// The value of a finding about a GPU, so that the overview and the findings never disagree.
static struct str value_of(const struct check *c, int card, const char *id) {
    for (ptrdiff_t i = 0; i < c->findings.count; i++) {
        const struct finding *f = &c->findings.items[i];
        if (f->card == card && str_is(str_of(id), f->id)) return f->value;
    }
    return (struct str){0};
}

static void show_cards(const struct check *c, struct show_style style, struct buf *out) {
    static const char *const names[] = {"#",    "GPU",        "tier",       "memory",
                                        "free", "capability", "precisions", "link",
                                        "heat", "power",      "busy"};
    static const char *const gives_way[] = {"precisions", "capability", "tier", "link",
                                            "heat",       "power",      "busy", NULL};
    struct show_table t = show_table_new(c->arena, (struct str){0});
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bool is_text = i == 1 || i == 2 || i == 6 || i == 7;
        show_table_column(&t, names[i], is_text ? SHOW_LEFT : SHOW_RIGHT);
    }
    // One or two are easier read as blocks.
    if (c->facts.devices.count > 2) show_table_gives_way(&t, gives_way);
    for (int i = 0; i < c->facts.devices.count; i++) {
        const struct device_card *d = &c->facts.devices.cards[i];
        const struct rules_support *s = &c->supports[i];
        int cc = s->compute_capability;
        show_table_format(&t, SHOW_DIM, "%d", d->index);
        show_table_cell(&t, SHOW_STRONG, show_gpu_name(str_of(d->facts.name)));
        show_table_known(&t, SHOW_PLAIN, s->tier);
        show_table_known(&t, SHOW_PLAIN, bytes_text(c->arena, d->now.total_bytes));
        show_table_known(&t, SHOW_PLAIN, bytes_text(c->arena, d->now.free_bytes));
        show_table_known(&t, SHOW_PLAIN,
                         cc > 0 ? str_format(c->arena, "%d.%d", cc / 10, cc % 10)
                                : (struct str){0});
        show_table_known(&t, SHOW_PLAIN, value_of(c, i, "card.precision"));
        show_table_known(&t, SHOW_PLAIN, value_of(c, i, "card.link"));
        show_table_known(&t, SHOW_PLAIN, value_of(c, i, "card.heat"));
        show_table_known(&t, SHOW_PLAIN,
                         isnan(d->now.power_watts)
                             ? (struct str){0}
                             : str_format(c->arena, "%.0f W", d->now.power_watts));
        show_table_known(&t, SHOW_PLAIN,
                         isnan(d->now.utilisation)
                             ? (struct str){0}
                             : str_format(c->arena, "%.0f %%", 100 * d->now.utilisation));
    }
    show_table_text(&t, style, out);
    buf_byte(out, '\n');
}

// Before everything else, whatever is shown.
static void show_standin(const struct check *c, struct show_style style, struct buf *out) {
    struct str note = device_standin_note(c->arena, c->facts.devices.standin);
    if (note.len == 0) return;
    show_text(out, style, SHOW_WARN, note);
    buf_byte(out, '\n');
}

static void show_machine(const struct check *c, struct show_style style, struct buf *out) {
    const struct rules_facts *f = &c->facts;
    const struct rules_torch *t = &f->torch;
    struct buf line = buf_new(c->arena);
    if (c->options->demo)
        buf_format(&line, "%s", _("demo machine; "));
    else if (f->is_recorded)
        buf_format(&line, _("recorded machine %s; "), c->options->machine);
    buf_format(&line, "%.*s", STR_ARG(f->cpu.name));
    if (f->cpu.cores > 0)
        buf_format(&line, ", %d core%s", f->cpu.cores, f->cpu.cores == 1 ? "" : "s");
    if (f->cpu.total_bytes > 0) {
        buf_format(&line, ", %.*s of memory", STR_ARG(unit_bytes(c->arena, f->cpu.total_bytes)));
    }
    if (f->devices.driver_version.len > 0) {
        buf_format(&line, "; driver %.*s", STR_ARG(f->devices.driver_version));
    }
    if (t->state == RULES_TORCH_FOUND) {
        buf_format(&line, "; PyTorch %.*s%s", STR_ARG(t->version),
                   t->is_read ? _(" (by its files; --detailed imports it)") : "");
    }
    buf_format(&line, "\n\n");
    show_prose(out, style, SHOW_PLAIN, str_trim(buf_str(&line)), 0, 2);
    buf_byte(out, '\n');
    if (f->devices.count > 0) show_cards(c, style, out);
    check_topology_show(c, style, out);
}

// --- Findings ------------------------------------------------------------------------------------

static struct str subject(const struct check *c, const struct finding *f) {
    if (f->card < 0) return STR("machine");
    const struct device_card *d = &c->facts.devices.cards[f->card];
    if (d->is_mig) return str_format(c->arena, "GPU %d, instance at place %d", d->index, f->card);
    return str_format(c->arena, "GPU %d", d->index);
}

static void add_finding(const struct check *c, struct show_table *t, const struct finding *f) {
    struct buf b = buf_new(c->arena);
    if (f->value.len > 0) buf_format(&b, "%.*s", STR_ARG(f->value));
    if (f->evidence.len > 0) buf_join(&b, ": ", f->evidence);
    show_table_cell(t, tones[f->severity], str_of(finding_severity_name(f->severity)));
    show_table_cell(t, SHOW_PLAIN, subject(c, f));
    show_table_cell(t, SHOW_STRONG, str_of(f->what));
    show_table_cell(t, SHOW_PLAIN, buf_str(&b));
    show_table_known(t, SHOW_PLAIN, f->remedy);
    if (c->options->detailed) show_table_cell(t, SHOW_DIM, str_of(f->id));
}

// The table of what was measured has it, with the same words, and marks it: it is not counted
// again.
static bool is_in_rates(const struct check *c, const struct finding *f) {
    return c->rates.count > 0 && f->severity < FINDING_WARNING &&
           str_starts(str_of(f->id), STR("rate."));
}

// The worst first; what is fine only with --detailed.
static void show_findings(const struct check *c, struct show_style style, struct buf *out) {
    struct show_table t = show_table_new(c->arena, (struct str){0});
    int counts[FINDING_PROBLEM + 1] = {0};
    enum finding_severity least = c->options->detailed ? FINDING_OK : FINDING_NOTE;
    show_table_column(&t, "", SHOW_LEFT);
    show_table_column(&t, "about", SHOW_LEFT);
    show_table_column(&t, "what", SHOW_LEFT);
    show_table_wrapping(&t, "found");
    show_table_wrapping(&t, "what to do");
    if (c->options->detailed) show_table_column(&t, "id", SHOW_LEFT);
    for (int severity = FINDING_PROBLEM; severity >= FINDING_OK; severity--) {
        for (ptrdiff_t i = 0; i < c->findings.count; i++) {
            const struct finding *f = &c->findings.items[i];
            if ((int)f->severity != severity) continue;
            if (is_in_rates(c, f)) continue;
            counts[severity]++;
            if (f->severity >= least) add_finding(c, &t, f);
        }
    }
    if (t.cell_count > 0) show_table_text(&t, style, out);
    if (t.cell_count > 0) buf_byte(out, '\n');
    struct buf text = buf_new(c->arena);
    buf_format(&text, counts[FINDING_PROBLEM] == 1 ? _("%d problem, ") : _("%d problems, "),
               counts[FINDING_PROBLEM]);
    buf_format(&text, counts[FINDING_WARNING] == 1 ? _("%d warning, ") : _("%d warnings, "),
               counts[FINDING_WARNING]);
    buf_format(&text, counts[FINDING_NOTE] == 1 ? _("%d note, ") : _("%d notes, "),
               counts[FINDING_NOTE]);
    buf_format(&text, _("%d unknown, %d fine"), counts[FINDING_UNKNOWN], counts[FINDING_OK]);
    if (!c->options->detailed && counts[FINDING_OK] > 0) {
        buf_add(&text, str_of(_(" (shown by --detailed)")));
    }
    show_prose(out, style, SHOW_PLAIN, buf_str(&text), 0, 2);
    buf_byte(out, '\n');
}

// --- Settings ------------------------------------------------------------------------------------

static struct str yes(bool is_on) {
    return is_on ? STR("yes") : STR("no");
}

// What the config says now; empty: nothing.
static struct str config_says(const struct check *c, enum config_role role) {
    const struct config_value *v = &c->question.reading.values[role];
    return c->question.has_config && v->line > 0 ? v->text : (struct str){0};
}

static void add_setting(struct show_table *t, const char *name, struct str value, struct str now,
                        const char *reason) {
    show_table_cell(t, SHOW_STRONG, str_of(name));
    show_table_known(t, SHOW_PLAIN, value);
    show_table_known(t, SHOW_PLAIN, now);
    show_table_cell(t, SHOW_PLAIN, str_of(reason));
}

static struct str number(struct arena *a, int64_t value) {
    return value >= 0 ? str_format(a, "%lld", (long long)value) : (struct str){0};
}

static void add_batch(const struct check *c, struct show_table *t, const struct check_advice *d) {
    const struct answer *x = &d->answer;
    struct str reason = d->why_no_answer;
    if (!d->has_answer) {
        show_table_cell(t, SHOW_STRONG, STR("batch size"));
        show_table_unknown(t);
        show_table_known(t, SHOW_PLAIN, config_says(c, CONFIG_BATCH));
        show_table_known(t, SHOW_PLAIN, reason);
        return;
    }
    const struct answer_memory m = answer_memory(x);
    reason = str_format(c->arena, "%.*s in %s: %s, %.*s", STR_ARG(x->plan.model),
                        plan_precision_name(x->plan.precision), answer_word(&c->question, x).name,
                        STR_ARG(answer_memory_text(c->arena, &m)));
    const bool is_yes = answer_is_yes(&c->question, x);
    add_setting(t, "batch size",
                is_yes    ? number(c->arena, x->plan.batch)
                : x->fits ? STR("not known")
                          : STR("none fits"),
                config_says(c, CONFIG_BATCH), reason.p);
    if (is_yes && c->question.effective > 0) {
        add_setting(
            t, "accumulation", number(c->arena, x->plan.accumulation),
            config_says(c, CONFIG_ACCUMULATION),
            str_format(c->arena, "keeps the effective batch %lld", (long long)c->question.effective)
                .p);
    }
}

static bool same_card(const struct check *c, const struct check_advice *a,
                      const struct check_advice *b) {
    const struct device_card *x = &c->facts.devices.cards[a->card];
    const struct device_card *y = &c->facts.devices.cards[b->card];
    return str_is(str_of(x->facts.name), y->facts.name) && a->has_answer == b->has_answer &&
           a->answer.fits == b->answer.fits && a->answer.plan.batch == b->answer.plan.batch &&
           a->answer.peak.verdict == b->answer.peak.verdict;
}

// Eight equal GPUs get one table.
static bool is_repeated(const struct check *c, int at) {
    for (int i = 0; i < at; i++) {
        if (same_card(c, &c->advice[i], &c->advice[at])) return true;
    }
    return false;
}

static struct str advice_title(const struct check *c, int at) {
    const struct check_advice *d = &c->advice[at];
    struct buf b = buf_new(c->arena);
    int count = 0, last = -1;
    if (d->card < 0) return STR("Recommended on the CPU");
    for (int i = at; i < c->advice_count; i++) {
        int index = c->facts.devices.cards[c->advice[i].card].index;
        if (index == last || !same_card(c, d, &c->advice[i])) continue;
        buf_format(&b, "%s%d", count++ ? ", " : "", index);
        last = index;
    }
    struct str name = str_of(c->facts.devices.cards[d->card].facts.name);
    return str_format(c->arena,
                      count == 1 ? _("Recommended for GPU %.*s, %.*s")
                                 : _("Recommended for GPUs %.*s, %.*s"),
                      STR_ARG(buf_str(&b)), STR_ARG(show_gpu_name(name)));
}

static const char *precision_reason(const struct check *c, const struct check_advice *d) {
    if (d->card < 0) return "most CPUs train in fp32; the newest server CPUs have bf16";
    const struct rules_support *s = &c->supports[d->card];
    if (c->question.precision_fixed) return "as --precision or --tape says";
    if (!s->has_tensor_cores) return "no tensor cores";
    if (d->precision == PLAN_FP32) return "bf16 is emulated here, and the model overflows in fp16";
    if (d->precision == PLAN_AMP_BF16) return "bf16 in hardware; no loss scaling needed";
    if (d->precision != PLAN_AMP_FP16) return "as the config says";
    return s->has_bf16 ? "as the config says; bf16 would need no loss scaling"
                       : "tensor cores without bf16; with loss scaling";
}

static void show_advice(const struct check *c, int at, struct show_style style, struct buf *out) {
    const struct check_advice *d = &c->advice[at];
    bool is_cpu = d->card < 0;
    struct str title = advice_title(c, at);
    struct show_table t = show_table_new(c->arena, title);
    show_table_column(&t, "setting", SHOW_LEFT);
    show_table_column(&t, "value", SHOW_RIGHT);
    show_table_column(&t, "config now", SHOW_RIGHT);
    show_table_wrapping(&t, "because");
    add_setting(&t, "precision", check_precision_text(d), config_says(c, CONFIG_PRECISION),
                precision_reason(c, d));
    if (d->tf32) {
        add_setting(
            &t, "tf32", yes(true), (struct str){0},
            "what stays in fp32 runs on tensor cores (set_float32_matmul_precision('high'))");
    }
    add_setting(&t, "num_workers", number(c->arena, d->workers), config_says(c, CONFIG_WORKERS),
                d->workers < 0 ? "the number of cores is unknown" : "limited by cores and memory");
    add_setting(&t, "pin_memory", yes(d->pin_memory), (struct str){0},
                d->pin_memory ? "copies to the GPU overlap with it"
                : is_cpu      ? "no GPU to copy to"
                              : "GPU and CPU share memory");
    if (!is_cpu) {
        add_setting(&t, "channels_last", yes(d->channels_last),
                    config_says(c, CONFIG_CHANNELS_LAST),
                    d->channels_last
                        ? "for convolutions on tensor cores; makes no difference to transformers"
                        : "no benefit here");
    }
    add_setting(&t, "compile", yes(d->compile), config_says(c, CONFIG_COMPILE),
                d->compile
                    ? "for long trainings: the first steps take minutes"
                    : "needs PyTorch 2, a compiler and, on a GPU, capability 7.0 and Triton");
    add_batch(c, &t, d);
    show_table_text(&t, style, out);
    buf_byte(out, '\n');
}

// The answer first: the worst that was found and what to do about it, or that nothing is wrong.
static void show_verdict(const struct check *c, struct show_style style, struct buf *out) {
    const struct finding *worst = NULL;
    struct buf text = buf_new(c->arena);
    int more = -1, cards = c->facts.devices.count;
    for (ptrdiff_t i = 0; i < c->findings.count; i++) {
        const struct finding *f = &c->findings.items[i];
        if (f->severity < FINDING_WARNING) continue;
        if (!worst || f->severity > worst->severity) worst = f;
        more++;
    }
    struct str name = !worst                               ? STR("OK")
                      : worst->severity == FINDING_PROBLEM ? STR("PROBLEM")
                                                           : STR("WARNING");
    name = say_str(name);
    show_text(out, style, worst ? tones[worst->severity] : SHOW_GOOD, name);
    buf_add(out, STR("  "));
    if (worst) {
        buf_format(&text, "%.*s, %s: %.*s", STR_ARG(say_str(subject(c, worst))), say(worst->what),
                   STR_ARG(say_str(worst->value.len > 0 ? worst->value : worst->evidence)));
        if (worst->remedy.len > 0) {
            buf_format(&text, _(". What to do: %.*s"), STR_ARG(say_str(worst->remedy)));
        }
        if (more > 0) buf_format(&text, _(" (and %d more below)"), more);
    } else {
        buf_format(&text,
                   cards == 1 ? _("nothing is wrong with this machine: %d GPU")
                              : _("nothing is wrong with this machine: %d GPUs"),
                   cards);
    }
    show_prose(out, style, SHOW_PLAIN, buf_str(&text), show_width(name) + 2, 2);
}

void check_show(struct check *c, struct show_style style, struct buf *out) {
    SAY_OWN_AUTO;
    show_standin(c, style, out);
    if (!c->options->recommend) {
        show_verdict(c, style, out);
        show_machine(c, style, out);
        check_microbench_show(c, style, out);
        show_findings(c, style, out);
    }
    for (int i = 0; i < c->advice_count; i++) {
        if (is_repeated(c, i)) continue;
        show_advice(c, i, style, out);
        if (c->advice[i].has_answer) answer_notes(&c->advice[i].answer.notes, style, out);
    }
    answer_notes(&c->question.notes, style, out);
}

// --- The document --------------------------------------------------------------------------------

// A GPU as the driver numbers it; -1: the machine.
static int index_of(const struct check *c, int card) {
    return card < 0 ? -1 : c->facts.devices.cards[card].index;
}

static json_t *advice_json(const struct check *c, const struct check_advice *d) {
    const struct answer *x = d->has_answer ? &d->answer : NULL;
    bool fits = x && answer_is_yes(&c->question, x);
    return json_pack(
        "{s:s, s:o, s:o, s:o, s:b, s:o, s:b, s:b, s:b, s:b, s:o, s:o, s:o, s:o}", "device",
        d->card < 0 ? "cpu" : "cuda", "card", json_count(index_of(c, d->card)), "name",
        d->card < 0 ? json_text(c->facts.cpu.name)
                    : json_text(str_of(c->facts.devices.cards[d->card].facts.name)),
        "precision", json_text(check_precision_text(d)), "tf32", d->tf32, "num_workers",
        json_count(d->workers), "pin_memory", d->pin_memory, "channels_last", d->channels_last,
        "compile", d->compile, "cudnn_benchmark", d->cudnn_benchmark, "batch_size",
        fits ? json_integer(x->plan.batch) : json_null(), "accumulation",
        fits ? json_integer(x->plan.accumulation) : json_null(), "forecast",
        x ? answer_json(x) : json_null(), "why_no_forecast", json_text(d->why_no_answer));
}

static json_t *card_json(const struct check *c, int i) {
    const struct device_card *d = &c->facts.devices.cards[i];
    const struct rules_support *s = &c->supports[i];
    return json_pack("{s:i, s:o, s:b, s:s, s:o, s:o, s:o, s:o, s:o}", "index", d->index, "name",
                     json_text(str_of(d->facts.name)), "mig", d->is_mig, "state",
                     device_state_name(d->state), "tier", json_text(s->tier), "compute_capability",
                     s->compute_capability > 0 ? json_real(s->compute_capability / 10.0)
                                               : json_null(),
                     "total_bytes", json_size(d->now.total_bytes), "free_bytes",
                     json_count(d->now.free_bytes), "used_bytes", json_count(d->now.used_bytes));
}

static json_t *machine_json(const struct check *c) {
    const struct rules_facts *f = &c->facts;
    json_t *cards = json_array();
    for (int i = 0; i < f->devices.count; i++) json_array_append_new(cards, card_json(c, i));
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "cpu", json_text(f->cpu.name),
                     "cores", json_size(f->cpu.cores), "memory_bytes",
                     json_size(f->cpu.total_bytes), "driver", json_text(f->devices.driver_version),
                     "torch", json_text(f->torch.version), "standin", json_text(f->devices.standin),
                     "recording", json_text(str_of(c->options->machine)), "cards", cards,
                     "topology", check_topology_json(c));
}

json_t *check_json(struct check *c) {
    json_t *findings = json_array(), *each = json_array();
    for (ptrdiff_t i = 0; i < c->findings.count; i++) {
        const struct finding *f = &c->findings.items[i];
        json_array_append_new(findings, finding_json(f, index_of(c, f->card)));
    }
    for (int i = 0; i < c->advice_count; i++) {
        json_array_append_new(each, advice_json(c, &c->advice[i]));
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:i}", "machine", machine_json(c), "findings",
                     findings, "rates", check_microbench_json(c), "recommended",
                     advice_json(c, &c->advice[0]), "recommended_by_card", each, "notes",
                     json_texts(&c->question.notes), "exit", check_is_well(c) ? 0 : 1);
}
