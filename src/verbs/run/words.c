// SPDX-License-Identifier: Apache-2.0
// How the usual trainers are told to resume: looked for in the command and in the script that it
// names, which is read and never run. A proposal for people: nothing is decided by it.
#include "verbs/run/run.h"

#include "base/os.h"

enum { SCRIPT_MAX_BYTES = 1 << 20 };

// Ultralytics: with resume=PATH its Model.train drops the path of any model but a checkpoint and
// starts over (8.3.63, engine/model.py).
static const struct {
    const char *text;    // in the command or in the script
    const char *trainer; // its name
    const char *words;
} trainers[] = {
    {"yolo", "Ultralytics", "{resume:model={checkpoint} resume=True}"},
    {"ultralytics", "Ultralytics", "{resume:model={checkpoint} resume=True}"},
    {"init_from", "nanoGPT", "{resume:--init_from=resume}"},
    {"lightning", "Lightning", "{resume:--ckpt_path {checkpoint}}"},
    {"transformers", "Hugging Face", "{resume:--resume_from_checkpoint {checkpoint}}"},
    {"accelerate", "accelerate", "{resume:--resume_from_checkpoint {checkpoint}}"},
    {"timm", "timm", "{resume:--resume {checkpoint}}"},
};

static struct str script_of(struct arena *a, char *const *command) {
    struct str text = {0};
    for (int i = 0; command[i]; i++) {
        bool is_script = str_ends(str_of(command[i]), STR(".py"));
        if (is_script && os_read(a, command[i], SCRIPT_MAX_BYTES, &text, NULL, NULL) == 0) break;
    }
    return text;
}

struct str run_resume_words(struct arena *a, char *const *command) {
    struct str script = script_of(a, command), words = trial_command_text(a, command);
    for (size_t i = 0; i < sizeof trainers / sizeof *trainers; i++) {
        struct str text = str_of(trainers[i].text);
        if (str_find(words, text) < 0 && str_find(script, text) < 0) continue;
        return str_format(a, "for %s add %s to it, if the script has that option",
                          trainers[i].trainer, trainers[i].words);
    }
    return STR("add its resume option: {resume:--resume {checkpoint}}, or {resume:--resume} if it "
               "finds its newest checkpoint itself");
}
