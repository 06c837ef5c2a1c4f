// SPDX-License-Identifier: Apache-2.0
// The user's command with placeholders: {batch}, {accumulate}, {workers}, {config}, {scratch}, the
// names of axes, and {name:TEXT}, which stands for TEXT when the name's value is set and true and
// for nothing otherwise.
#pragma once

#include "base/fail.h"
#include "base/str.h"

struct trial_command_value {
    struct str name, text;
    bool off; // {name:TEXT} vanishes: a switch that is off, a value that is not set
};

// Replaces the placeholders in a command (NULL-ended). "{{" and "}}" are literal braces; a brace
// that does not begin {identifier} or {identifier: is left alone (JSON on the command line). TEXT
// may hold blanks, placeholders and span several words of the command, as {resume:--resume
// {checkpoint}} does after the shell has cut it; words of it become words of the command. A word
// that becomes empty by a vanished placeholder is dropped. FAIL_USAGE: an unknown name (with the
// nearest), or an open brace.
int trial_command_expand(struct arena *a, char *const *argv,
                         const struct trial_command_value *values, int count, char ***ret_argv,
                         struct fail *why);
// The same for one text, which stays one word: the VALUE of --env NAME=VALUE.
int trial_command_expand_text(struct arena *a, struct str text,
                              const struct trial_command_value *values, int count,
                              struct str *ret_text, struct fail *why);
// Whether {name} or {name:…} stands anywhere in the command.
bool trial_command_mentions(char *const *argv, struct str name);
// The command as one would type it in a shell, quoted where needed.
struct str trial_command_text(struct arena *a, char *const *argv);
