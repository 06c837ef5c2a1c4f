// SPDX-License-Identifier: Apache-2.0
// The edits that a smallest-edit patcher must survive, one row a case. A row without an expected
// error must give exactly the expected text, and the same edit again must change nothing.
#include "unit.h"

#include "base/os.h"
#include "records/config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct row {
    const char *name, *text, *path, *value;
    const char *expected; // NULL: an error that contains `error` and, when given, `hint`
    const char *error, *hint, *note;
    unsigned flags;
    const char *after;
    const char *file; // "c.yaml"
    bool insert, is_text, no_write;
};

#define BS "batch_size"
#define ANCHOR CONFIG_EDIT_ANCHOR
#define SPECIAL CONFIG_REPLACE_SPECIAL

static const struct row rows[] = {
    {"01 comment behind the value", "train:\n  batch_size: 32   # 배치 크기\n  lr: 0.1  # 학습률\n",
     "train.batch_size", "8", "train:\n  batch_size: 8   # 배치 크기\n  lr: 0.1  # 학습률\n"},
    {"02 commented twins", "#batch_size: 99\nbatch_size: 16\n# batch_size: auto\n", BS, "4",
     "#batch_size: 99\nbatch_size: 4\n# batch_size: auto\n"},
    {"03 Korean and emoji in front", "# 🚀 설정\n모델: \"효율 😀\"\nbatch_size: 16\n", BS, "128",
     "# 🚀 설정\n모델: \"효율 😀\"\nbatch_size: 128\n"},
    {"03 Korean on the same line", "{이름: 한글 😀, batch_size: 16, 끝: 참}\n", BS, "8",
     "{이름: 한글 😀, batch_size: 8, 끝: 참}\n"},
    {"04 CRLF, edit", "a: 1\r\nbatch_size: 16\r\nlr: 1\r\n", BS, "8",
     "a: 1\r\nbatch_size: 8\r\nlr: 1\r\n"},
    {"04 CRLF, insert", "a: 1\r\nbatch_size: 16\r\nlr: 1\r\n", "accumulate", "2",
     "a: 1\r\nbatch_size: 16\r\naccumulate: 2\r\nlr: 1\r\n", .insert = true, .after = BS},
    {"04 CRLF, insert at the open end", "a: 1\r\nbatch_size: 16", "accumulate", "2",
     "a: 1\r\nbatch_size: 16\r\naccumulate: 2", .insert = true},
    {"05 mixed line ends, edit", "a: 1\r\nbatch_size: 16\nlr: 1\r\n", BS, "8",
     "a: 1\r\nbatch_size: 8\nlr: 1\r\n"},
    {"05 mixed line ends, insert", "a: 1\r\nbatch_size: 16\nlr: 1\r\n", "accumulate", "2",
     "a: 1\r\nbatch_size: 16\naccumulate: 2\nlr: 1\r\n", .insert = true, .after = BS},
    {"06 byte order mark",
     "\xEF\xBB\xBF"
     "batch_size: 16\nlr: 1\n",
     BS, "8",
     "\xEF\xBB\xBF"
     "batch_size: 8\nlr: 1\n"},
    {"06 byte order mark, insert",
     "\xEF\xBB\xBF"
     "batch_size: 16\nlr: 1\n",
     "accumulate", "8",
     "\xEF\xBB\xBF"
     "batch_size: 16\naccumulate: 8\nlr: 1\n",
     .insert = true, .after = BS},
    {"06 second byte order mark",
     "\xEF\xBB\xBF"
     "a: 1\n\xEF\xBB\xBF"
     "batch_size: 16\n",
     BS, "8", .error = "c.yaml:2:1: a second byte order mark"},
    {"06 U+FFFF",
     "a: \"\xEF\xBF\xBF\"\n"
     "batch_size: 16\n",
     BS, "8", .error = "c.yaml:1:5: U+FFFF, which is no character"},
    {"07 CP949", "# \xB9\xE8\xC4\xA1\nbatch_size: 16\n", BS, "8", .error = "c.yaml:1:3: not UTF-8",
     .hint = "CP949"},
    {"09 no newline at the end, edit", "a: 1\nbatch_size: 16", BS, "8", "a: 1\nbatch_size: 8"},
    {"09 no newline at the end, insert", "a: 1\nbatch_size: 16", "accumulate", "2",
     "a: 1\nbatch_size: 16\naccumulate: 2", .insert = true},
    {"10 trailing blanks", "batch_size: 16   \n   \nlr: 1  \n", BS, "8",
     "batch_size: 8   \n   \nlr: 1  \n"},
    {"10 trailing blanks, insert", "batch_size: 16   \n   \nlr: 1  \n", "accumulate", "8",
     "batch_size: 16   \naccumulate: 8\n   \nlr: 1  \n", .insert = true, .after = BS},
    {"11 tab as indentation", "train:\n\tbatch_size: 16\n", "train.batch_size", "8",
     .error = "c.yaml:2:1: not YAML", .hint = "tab"},
    {"12 tab behind the colon", "batch_size:\t16\n", BS, "8", .error = "c.yaml:1:12: a tab"},
    {"12 tab in front of a comment", "batch_size: 16\t# x\n", BS, "8",
     .error = "c.yaml:1:15: a tab"},
    {"12 tab at the end of a line", "a: 1\t\nbatch_size: 16\n", BS, "8",
     .error = "c.yaml:1:5: a tab"},
    {"12 tabs inside quotes, blocks and comments are fine",
     "a: \"x\ty\"\nb: |\n  q\tr\n# c\td\nbatch_size: 16 #\te\n", BS, "8",
     "a: \"x\ty\"\nb: |\n  q\tr\n# c\td\nbatch_size: 8 #\te\n"},
    {"12 tab in an explicit key, on which the parser would fall", "a: 1\n? b:\t- c\n", "a", "8",
     .error = "c.yaml:2:5: a tab after the colon of an explicit key"},
    {"13 no-break space in front of the key", "train:\n  lr: 1\n\xC2\xA0 batch_size: 16\n", BS, "8",
     .error = "no key", .hint = "no-break space (U+00A0) in line 3"},
    {"13 no-break space as part of the key",
     "\xC2\xA0"
     "batch_size: 16\n",
     BS, "8", .error = "no key 'batch_size'", .hint = "U+00A0) in line 1"},
    {"14 full-width colon", "lr: 1\nbatch_size：16\n", BS, "8",
     .error = "c.yaml:", .hint = "U+FF1A"},
    {"14 full-width digits", "batch_size: １６\n", BS, "8", .error = "full-width digits"},
    {"15 no blank after the colon", "batch_size:16\n", BS, "8",
     .error = "c.yaml:1:1: expected keys", .hint = "no space after the colon in line 1"},
    {"15 no blank after the colon, in a map", "lr: 1\nbatch_size:16\n", BS, "8",
     .error = "c.yaml:2:", .hint = "no space after the colon in line 2"},
    {"16 blank before the colon", "batch_size : 16\n", BS, "8", "batch_size : 8\n"},
    {"17 key in double quotes", "\"batch_size\": 16\n", BS, "8", "\"batch_size\": 8\n"},
    {"17 key in single quotes", "'batch_size': 16\n", BS, "8", "'batch_size': 8\n"},
    {"17 explicit key", "? batch_size\n: 16\n", BS, "8", "? batch_size\n: 8\n"},
    {"18 single quotes", "batch_size: '16'\n", BS, "8", "batch_size: '8'\n", .note = "quoted"},
    {"18 double quotes", "batch_size: \"16\"\n", BS, "8", "batch_size: \"8\"\n", .note = "quoted"},
    {"18 escaped digit", "batch_size: \"1\\u0036\"\n", BS, "8", "batch_size: \"8\"\n",
     .note = "quoted"},
    {"18 escaped digit, same value", "batch_size: \"1\\u0036\"\n", BS, "16",
     "batch_size: \"1\\u0036\"\n", .no_write = true},
    {"19 anchor at the value", "batch_size: &bs 16\nval:\n  bs: *bs\n", BS, "8",
     "batch_size: &bs 8\nval:\n  bs: *bs\n", .note = "val.bs follows &bs"},
    {"20 alias", "a: &bs 16\nbatch_size: *bs\n", BS, "8",
     .error = "c.yaml:2:14: batch_size is the alias *bs of line 1", .hint = "--force-anchor"},
    {"20 alias, through the anchor", "a: &bs 16\nbatch_size: *bs\n", BS, "8",
     "a: &bs 8\nbatch_size: *bs\n", .flags = ANCHOR, .note = "batch_size follows"},
    {"20 alias, replaced", "a: &bs 16\nbatch_size: *bs # c\n", BS, "8",
     "a: &bs 16\nbatch_size: 8 # c\n", .flags = SPECIAL},
    {"20 alias, same value", "a: &bs 16\nbatch_size: *bs\n", BS, "16",
     "a: &bs 16\nbatch_size: *bs\n", .no_write = true},
    {"20 alias of a key", "&k lr: 16\nbatch_size: *k\n", BS, "8",
     .error = "no place for a plain value", .flags = ANCHOR, .is_text = true},
    {"21 key only in the base",
     "base: &b\n  batch_size: 16\n  lr: 1\ntrain:\n  <<: *b\n  epochs: 3\nx: 1\n",
     "train.batch_size", "8",
     "base: &b\n  batch_size: 16\n  lr: 1\ntrain:\n  <<: *b\n  epochs: 3\n  batch_size: 8\nx: 1\n",
     .note = "merged map in line 2"},
    {"21 key only in the base, edit the base",
     "base: &b\n  batch_size: 16\ntrain:\n  <<: *b\n  epochs: 3\n", "train.batch_size", "8",
     "base: &b\n  batch_size: 8\ntrain:\n  <<: *b\n  epochs: 3\n", .flags = ANCHOR},
    {"21 own key wins, before or behind the merge",
     "base: &b {batch_size: 16}\ntrain:\n  batch_size: 4\n  <<: *b\n", "train.batch_size", "8",
     "base: &b {batch_size: 16}\ntrain:\n  batch_size: 8\n  <<: *b\n"},
    {"21 the first of several bases wins",
     "a: &a {batch_size: 1}\nb: &b {batch_size: 2}\nt:\n  <<: [*a, *b]\n", "t.batch_size", "1",
     "a: &a {batch_size: 1}\nb: &b {batch_size: 2}\nt:\n  <<: [*a, *b]\n", .no_write = true},
    {"22 chain of merges", "a: &a {batch_size: 16}\nb: &b\n  <<: *a\nt:\n  <<: *b\n",
     "t.batch_size", "8", "a: &a {batch_size: 8}\nb: &b\n  <<: *a\nt:\n  <<: *b\n",
     .flags = ANCHOR},
    {"22 anchor defined twice", "a: &x 1\nb: &x 2\nbatch_size: 16\n", BS, "8",
     .error = "c.yaml:2:7: anchor &x is defined twice, first in line 1"},
    {"22 undefined alias", "a: *x\nbatch_size: 16\n", BS, "8",
     .error = "c.yaml:1:5: undefined alias *x"},
    {"22 a section that is shared", "base: &b\n  batch_size: 16\ntrain: *b\n", "train.batch_size",
     "8", .error = "shared through an anchor", .hint = "--force-anchor"},
    {"22 merge that ends in itself", "t: &t\n  <<: *t\n  lr: 1\n", "t.batch_size", "8",
     .error = "no key 't.batch_size'"},
    {"23 flow map on one line", "train: {batch_size: 16, lr: 1e-4}\n", "train.batch_size", "8",
     "train: {batch_size: 8, lr: 1e-4}\n"},
    {"23 flow map on one line, insert", "train: {batch_size: 16, lr: 1e-4}\n", "train.accumulate",
     "2", "train: {batch_size: 16, accumulate: 2, lr: 1e-4}\n", .insert = true, .after = BS},
    {"24 flow map over lines", "train: {\n  batch_size: 16,\n  lr: 1,\n}\n", "train.batch_size",
     "8", "train: {\n  batch_size: 8,\n  lr: 1,\n}\n"},
    {"24 flow map over lines, insert", "train: {\n  batch_size: 16,  # c\n  lr: 1,\n}\n",
     "train.accumulate", "2", "train: {\n  batch_size: 16,  # c\n  accumulate: 2,\n  lr: 1,\n}\n",
     .insert = true, .after = BS},
    {"24 flow map over lines, insert at the trailing comma", "train: {\n  batch_size: 16,\n}\n",
     "train.accumulate", "2", "train: {\n  batch_size: 16,\n  accumulate: 2,\n}\n", .insert = true},
    {"24 flow map over lines, insert without a trailing comma",
     "train: {\r\n  lr: 1,\r\n  batch_size: 16 # c\r\n}\r\n", "train.accumulate", "2",
     "train: {\r\n  lr: 1,\r\n  batch_size: 16, # c\r\n  accumulate: 2\r\n}\r\n", .insert = true},
    {"25 flow map without a blank", "train: {batch_size:16}\n", "train.batch_size", "8",
     .error = "no key 'train.batch_size'", .hint = "no space after the colon"},
    {"25 flow map without a blank, insert", "train: {batch_size:16}\n", "train.batch_size", "8",
     .error = "no key", .insert = true},
    {"25 a comment has the key without a blank, insert",
     "lr: 1 # accumulate:8, {accumulate:4}\ntrain: {batch_size: 16}\n", "train.accumulate", "2",
     "lr: 1 # accumulate:8, {accumulate:4}\ntrain: {batch_size: 16, accumulate: 2}\n",
     .insert = true},
    {"25 a text has the key and what looks like a colon, insert",
     "note: 'as {accumulate:4}'\nsay: \"accumulate：2\"\nlr: 1\n", "accumulate", "2",
     "note: 'as {accumulate:4}'\nsay: \"accumulate：2\"\nlr: 1\naccumulate: 2\n", .insert = true},
    {"25 quoted key without a blank", "train: {\"batch_size\":16}\n", "train.batch_size", "8",
     "train: {\"batch_size\":8}\n"},
    {"26 look-alike in a block scalar",
     "note: |\n  batch_size: 99\ntext: \"a\n  batch_size: 99\"\nbatch_size: 16\n", BS, "8",
     "note: |\n  batch_size: 99\ntext: \"a\n  batch_size: 99\"\nbatch_size: 8\n"},
    {"27 block scalar as value", "batch_size: >-\n  16\n", BS, "8",
     .error = "is multi-line text, not a plain number"},
    {"27 value over two lines", "batch_size: 16\n  17\n", BS, "8", .error = "multi-line text"},
    {"28 value on the next line", "batch_size: # 주석\n  16\n", BS, "8",
     "batch_size: # 주석\n  8\n"},
    {"29 tag on an integer", "batch_size: !!int \"16\"\n", BS, "8", "batch_size: !!int \"8\"\n"},
    {"29 tag on a float", "lr: !!float 2e-5\n", "lr", "0.001", "lr: !!float 0.001\n"},
    {"29 tag that the value does not fit", "dtype: !!int \"16\"\n", "dtype", "bf16",
     .error = "no place for a plain value", .is_text = true},
    {"29 tag of somebody's own", "batch_size: !my 16\n", BS, "8",
     .error = "no place for a plain value"},
    {"30 nothing behind the colon", "batch_size:\nlr: 1\n", BS, "8",
     .error = "c.yaml:1:12: batch_size is null", .hint = "--force-special"},
    {"30 nothing behind the colon, consent", "batch_size:\nlr: 1\n", BS, "8",
     "batch_size: 8\nlr: 1\n", .flags = SPECIAL},
    {"30 only a comment, consent", "batch_size: # 주석\nlr: 1\n", BS, "8",
     "batch_size: 8 # 주석\nlr: 1\n", .flags = SPECIAL},
    {"30 tilde, consent", "batch_size: ~\n", BS, "8", "batch_size: 8\n", .flags = SPECIAL},
    {"30 null, consent", "batch_size: null # x\n", BS, "8", "batch_size: 8 # x\n",
     .flags = SPECIAL},
    {"30 Null without consent", "batch_size: Null\n", BS, "8", .error = "is null",
     .hint = "--force-special"},
    {"31 auto", "batch_size: auto\n", BS, "8", .error = "which the trainer fills in",
     .hint = "--force-special"},
    {"31 auto in quotes", "batch_size: \"auto\"\n", BS, "8", .error = "which the trainer fills in"},
    {"31 auto, consent", "batch_size: \"auto\"\n", BS, "8", "batch_size: \"8\"\n",
     .flags = SPECIAL},
    {"31 minus one", "batch: -1\n", "batch", "8", .error = "makes the trainer find a value itself",
     .hint = "--force-special"},
    {"31 fraction", "batch: 0.7\n", "batch", "8", .error = "makes the trainer find a value itself"},
    {"31 mandatory value", "batch: ???\n", "batch", "8", .error = "which the trainer fills in"},
    {"31 interpolation", "batch: ${data.batch_size}\n", "batch", "8",
     .error = "which the trainer fills in"},
    {"31 template", "batch: {{ x }}\n", "batch", "8", .error = "template's placeholder"},
    {"31 percent", "batch: %d\n", "batch", "8", .error = "c.yaml:1:"},
    {"31 at sign", "batch: @x\n", "batch", "8", .error = "c.yaml:1:"},
    {"32 octal", "batch_size: 016\n", BS, "8", .error = "016 is octal for PyYAML and means 14",
     .hint = "--force-special"},
    {"32 octal, consent", "batch_size: 016\n", BS, "8", "batch_size: 8\n", .flags = SPECIAL},
    {"32 octal of YAML 1.2", "batch_size: 0o20\n", BS, "8", .error = "octal in YAML 1.2"},
    {"32 hexadecimal", "batch_size: 0x10\n", BS, "8", .error = "means 16"},
    {"32 binary", "batch_size: 0b100\n", BS, "8", .error = "means 4"},
    {"32 leading zero", "batch_size: 08\n", BS, "8", .error = "leading zero"},
    {"33 underscore", "batch_size: 1_000\n", BS, "2000", "batch_size: 2000\n"},
    {"33 underscore, same value", "batch_size: 1_000\n", BS, "1000", "batch_size: 1_000\n",
     .no_write = true},
    {"34 exponent for a batch", "batch_size: 1e3\n", BS, "8", .error = "is text for PyYAML"},
    {"34 exponent for a rate, same value", "lr: 1e-4\n", "lr", "0.0001", "lr: 1e-4\n",
     .no_write = true},
    {"35 float", "batch_size: 16.0\n", BS, "8", "batch_size: 8.0\n"},
    {"36 base 60", "batch_size: 12:30\n", BS, "8", .error = "means 750"},
    {"36 date", "batch_size: 2026-01-01\n", BS, "8", .error = "is a date"},
    {"37 yes", "amp: yes\n", "amp", "false", "amp: no\n"},
    {"37 True", "amp: True\n", "amp", "false", "amp: False\n"},
    {"37 OFF", "amp: OFF\n", "amp", "true", "amp: ON\n"},
    {"37 y is text", "amp: y\n", "amp", "true", .error = "is text, expected a boolean"},
    {"37 quoted no", "mixed_precision: 'no'\n", "mixed_precision", "bf16",
     "mixed_precision: 'bf16'\n", .is_text = true},
    {"37 boolean in quotes", "amp: 'no'\n", "amp", "true", "amp: 'yes'\n"},
    {"37 on as a key", "on: 1\nbatch_size: 16\n", BS, "8", "on: 1\nbatch_size: 8\n"},
    {"37 text that would be a boolean gets quotes", "mixed_precision: fp16\n", "mixed_precision",
     "no", "mixed_precision: \"no\"\n", .is_text = true},
    {"38 comment without a blank", "batch_size: 16# c\n", BS, "8",
     .error = "needs a space before the #"},
    {"38 comma behind the number", "batch_size: 16,\n", BS, "8", .error = "an extra comma"},
    {"39 second document", "batch_size: 16\n---\na: 1\n", BS, "8",
     .error = "c.yaml:2:1: a second document"},
    {"39 one leading marker", "%YAML 1.1\n---\nbatch_size: 16\n", BS, "8",
     "%YAML 1.1\n---\nbatch_size: 8\n"},
    {"40 end marker, insert", "batch_size: 16\n...\n", "accumulate", "2",
     "batch_size: 16\naccumulate: 2\n...\n", .insert = true},
    {"40 text behind the end marker", "batch_size: 16\n...\na: 1\n", BS, "8",
     .error = "second document"},
    {"41 key twice", "batch_size: 16\nlr: 1\nbatch_size: 8\n", BS, "4",
     "batch_size: 16\nlr: 1\nbatch_size: 4\n"},
    {"41 section twice", "train:\n  batch_size: 1\ntrain:\n  batch_size: 8\n", "train.batch_size",
     "4", "train:\n  batch_size: 1\ntrain:\n  batch_size: 4\n"},
    {"41 key of a replaced section", "train:\n  lr: 1\ntrain:\n  batch_size: 8\n", "train.lr", "4",
     .error = "train.lr"},
    {"41 merge twice", "a: &a {x: 1}\nb:\n  <<: *a\n  <<: *a\n  batch_size: 8\n", "b.batch_size",
     "4", .error = "c.yaml:4:3: key '<<' is duplicated, first in line 3", .hint = "line 3 or 4"},
    {"41 key twice in a line", "{batch_size: 16, batch_size: 8}\n", BS, "4",
     "{batch_size: 16, batch_size: 4}\n"},
    {"42 key with a dot", "train.batch_size: 16\ntrain:\n  batch_size: 4\n", "\"train.batch_size\"",
     "8", "train.batch_size: 8\ntrain:\n  batch_size: 4\n"},
    {"42 path, not the key with a dot", "train.batch_size: 16\ntrain:\n  batch_size: 4\n",
     "train.batch_size", "8", "train.batch_size: 16\ntrain:\n  batch_size: 8\n"},
    {"43 insert behind the sibling",
     "train:\n    lr: 1\n    batch_size: 16 # 배치\n    epochs: 3\n\n# next\nval:\n  a: 1\n",
     "train.gradient_accumulation_steps", "2",
     "train:\n    lr: 1\n    batch_size: 16 # 배치\n    gradient_accumulation_steps: 2\n    "
     "epochs: 3\n\n# next\nval:\n  a: 1\n",
     .insert = true, .after = BS},
    {"43 insert at the end of the section",
     "train:\n     lr: 1\n     epochs: 3  # n\n\n# next\nval:\n  a: 1\n", "train.accumulate", "2",
     "train:\n     lr: 1\n     epochs: 3  # n\n     accumulate: 2\n\n# next\nval:\n  a: 1\n",
     .insert = true},
    {"43 insert behind a nested map", "train:\n  a:\n    b: [1,\n      2]\nval: 1\n",
     "train.accumulate", "2", "train:\n  a:\n    b: [1,\n      2]\n  accumulate: 2\nval: 1\n",
     .insert = true},
    {"43 insert behind a block scalar", "train:\n  a: |\n    text\n\n\nval: 1\n",
     "train.accumulate", "2", "train:\n  a: |\n    text\n  accumulate: 2\n\n\nval: 1\n",
     .insert = true},
    {"43 insert behind a block scalar at the open end", "a: |\n  text", "accumulate", "2",
     .error = "cannot find a place", .insert = true},
    {"44 section is null", "train:\nlr: 1\n", "train.batch_size", "2",
     .error = "no key 'train.batch_size'", .hint = "section 'train' is missing or empty",
     .insert = true},
    {"44 section is empty", "train: {}\nlr: 1\n", "train.batch_size", "2",
     .error = "cannot find a place", .insert = true},
    {"44 section is absent", "lr: 1\n", "train.batch_size", "2", .error = "no key",
     .hint = "section 'train'", .insert = true},
    {"44 top level", "lr: 1\n# end\n", BS, "2", "lr: 1\nbatch_size: 2\n# end\n", .insert = true},
    {"45 sequence item", "stages:\n- batch_size: 16\n- batch_size: 32\n", "stages[1].batch_size",
     "8", "stages:\n- batch_size: 16\n- batch_size: 8\n"},
    {"45 sequence item, insert", "stages:\n  - batch_size: 16\n  - batch_size: 32\n    lr: 1\n",
     "stages[0].accumulate", "8",
     "stages:\n  - batch_size: 16\n    accumulate: 8\n  - batch_size: 32\n    lr: 1\n",
     .insert = true},
    {"45 never by name only", "stages:\n- batch_size: 16\n", BS, "8",
     .error = "no key 'batch_size'"},
    {"46 minified JSON", "{\"k\":1,\"batch_size\":16}", BS, "8", "{\"k\":1,\"batch_size\":8}",
     .file = "c.json"},
    {"46 minified JSON, insert", "{\"k\":1,\"batch_size\":16}", "acc", "2",
     "{\"k\":1,\"batch_size\":16,\"acc\":2}", .file = "c.json", .insert = true},
    {"46 JSON with tabs", "{\n\t\"batch_size\":\t16\n}\n", BS, "8", "{\n\t\"batch_size\":\t8\n}\n",
     .file = "c.json"},
    {"46 JSON with tabs, insert", "{\n\t\"batch_size\": 16\n}\n", "acc", "2",
     "{\n\t\"batch_size\": 16,\n\t\"acc\": 2\n}\n", .file = "c.json", .insert = true},
    {"46 JSON, text is quoted", "{\"dtype\": \"fp16\"}", "dtype", "bf16", "{\"dtype\": \"bf16\"}",
     .file = "c.json", .is_text = true},
    {"46 JSON with comments", "{\n// c \"b\"\n\"batch_size\": 16}", BS, "8",
     .error = "c.json:2:", .hint = "JSON allows no comments", .file = "c.json"},
    {"46 JSON with a trailing comma", "{\"batch_size\": 16,}", BS, "8", .error = "not JSON",
     .file = "c.json"},
    {"47 alias bomb",
     "a: &a [1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d "
     "[*c,*c,*c,*c,*c,*c,*c]\nbatch_size: 16\n",
     BS, "8",
     "a: &a [1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d "
     "[*c,*c,*c,*c,*c,*c,*c]\nbatch_size: 8\n"},
    {"x list as value", "batch_size: [16, 8]\n", BS, "8", .error = "is a list or a map"},
    {"x no value to write", "batch_size: 16\n", BS, "8 # x",
     .error = "is not a value that can be written"},
    {"x text with a colon, as a model of timm's has", "m: timm:resnet50\n", "m", "timm:resnet101",
     "m: timm:resnet101\n", .is_text = true},
    {"x text that would be a comment", "m: a\n", "m", "b #c", "m: \"b #c\"\n", .is_text = true},
    {"x text with a quote", "m: a\n", "m", "b\"c", .error = "is not a value that can be written",
     .is_text = true},
    {"x no path", "batch_size: 16\n", "a..[", "8", .error = "is not the path"},
};
enum { ROWS = sizeof rows / sizeof *rows };

static int patch_row(struct arena *a, const struct row *r, struct str text,
                     struct config_patched *ret, struct fail *why) {
    struct config c;
    int status = config_parse(a, str_of(r->file ? r->file : "c.yaml"), text, &c, why);
    const struct config_edit edit = {.path = str_of(r->path),
                                     .value = str_of(r->value),
                                     .insert = r->insert,
                                     .after = str_of(r->after),
                                     .is_text = r->is_text};
    return status ? status : config_patch(a, &c, &edit, 1, r->flags, ret, why);
}

static void expect(const char *what, const char *is, const char *contains) {
    if (!contains || strstr(is, contains)) return;
    fail_msg("%s is \"%s\", expected \"%s\"", what, is, contains);
}

static void one_row(void **state) {
    const struct row *r = *state;
    ARENA_AUTO a = {0};
    struct fail why = {0};
    struct config_patched p = {0};
    int status = patch_row(&a, r, str_of(r->text), &p, &why);
    if (!r->expected) {
        assert_true(status < 0);
        expect("message", why.message, r->error);
        expect("hint", why.hint, r->hint);
        return;
    }
    if (status) fail_msg("refused: %s", why.message);
    if (!str_equal(p.text, str_of(r->expected))) {
        fail_msg("got\n%.*s\nexpected\n%s", STR_ARG(p.text), r->expected);
    }
    assert_int_equal(p.changed, !r->no_write);
    if (r->note) expect("note", p.notes.count ? str_z(&a, p.notes.items[0]) : "", r->note);
    assert_int_equal(p.changes.count, p.changed);
    struct config_patched again = {0};
    assert_int_equal(patch_row(&a, r, p.text, &again, &why), 0);
    assert_false(again.changed);
    assert_ptr_equal(again.text.p, p.text.p);
}

// Bytes with NUL in them do not fit the table.
static void row_07_utf16_and_08_nul(void **state) {
    (void)state;
    static const struct {
        struct str text;
        const char *message;
    } cases[] = {
        {STR("\xFF\xFE"
             "a\0:\0 \0001\0"),
         "c.yaml:1:1: not UTF-8 but UTF-16"},
        {STR("\xFE\xFF\0a\0:\0 \0001"), "c.yaml:1:1: not UTF-8 but UTF-16"},
        {STR("b\0a\0:\0 \0001\0"), "UTF-16"},
        {STR("batch_size: 16\nx: \0 1\n"), "c.yaml:2:4: NUL byte"},
        {STR("batch_size: 16\x07\n"), "c.yaml:1:15: control character 0x07"},
        {STR(""), "is empty"},
        {STR(" \n\n"), "is empty"},
        {STR("# only\n"), "only comments"},
        {STR("- 1\n- 2\n"), "not one list"},
        {STR("a: \xC0\x80\n"), "not UTF-8"},
        {STR("a: \xED\xA0\x80\n"), "not UTF-8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ARENA_AUTO a = {0};
        struct config c;
        struct fail why = {0};
        assert_int_equal(config_parse(&a, STR("c.yaml"), cases[i].text, &c, &why), FAIL_INPUT);
        expect("message", why.message, cases[i].message);
    }
}

static void row_47_long_lines_and_deep_nesting(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct buf b = buf_new(&a);
    buf_add(&b, STR("ids: ["));
    while (b.count < 900000) buf_add(&b, STR("12345, "));
    buf_add(&b, STR("1]\nbatch_size: 16\n"));
    struct config c;
    struct fail why = {0};
    int64_t begin = os_now_ns();
    assert_int_equal(config_parse(&a, STR("c.yaml"), buf_str(&b), &c, &why), 0);
    const struct config_edit edit = {.path = STR("batch_size"), .value = STR("8")};
    struct config_patched p;
    assert_int_equal(config_patch(&a, &c, &edit, 1, 0, &p, &why), 0);
    assert_true(str_ends(p.text, STR("1]\nbatch_size: 8\n")));
    assert_true(os_now_ns() - begin <
                INT64_C(5000000000)); // a guard against quadratic time, not a benchmark
    for (int open = 0; open < 2; open++) {
        struct buf deep = buf_new(&a);
        for (int i = 0; i < 300; i++) buf_add(&deep, open ? STR("{a: ") : STR("[["));
        for (int i = 0; i < 300; i++) buf_add(&deep, open ? STR("}") : STR("]]"));
        assert_int_equal(config_parse(&a, STR("c.yaml"), buf_str(&deep), &c, &why), FAIL_INPUT);
        expect("message", why.message, "c.yaml:");
    }
    struct buf block = buf_new(&a);
    for (int i = 0; i < 300; i++) {
        for (int k = 0; k < i; k++) buf_byte(&block, ' ');
        buf_add(&block, STR("a:\n"));
    }
    assert_int_equal(config_parse(&a, STR("c.yaml"), buf_str(&block), &c, &why), FAIL_INPUT);
    struct buf big = buf_new(&a);
    buf_add(&big, STR("a: 1 #"));
    while (big.count <= CONFIG_MAX_BYTES)
        buf_add(&big, STR("0123456789012345678901234567890123456789"));
    assert_int_equal(config_parse(&a, STR("c.yaml"), buf_str(&big), &c, &why), FAIL_INPUT);
    expect("message", why.message, "more than 16 MiB");
}

// The room's part of row 48 is to give a text; the writing is base/os. This is the two together.
static void row_48_symlink_and_mode(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    char folder[] = "/tmp/batchfit-config-XXXXXX";
    assert_non_null(mkdtemp(folder));
    char *file = str_format(&a, "%s/real.yaml", folder).p
                     ? str_z(&a, str_format(&a, "%s/real.yaml", folder))
                     : NULL;
    char *alias = str_z(&a, str_format(&a, "%s/c.yaml", folder));
    FILE *f = fopen(file, "w");
    fputs("batch_size: 16\n", f);
    fclose(f);
    assert_int_equal(chmod(file, 0640), 0);
    assert_int_equal(symlink("real.yaml", alias), 0);
    struct str text;
    struct os_stamp stamp;
    struct config c;
    struct config_patched p;
    const struct config_edit edit = {.path = STR("batch_size"), .value = STR("8")};
    assert_int_equal(os_read(&a, alias, CONFIG_MAX_BYTES, &text, &stamp, NULL), 0);
    assert_int_equal(config_parse(&a, str_of(alias), text, &c, NULL), 0);
    assert_int_equal(config_patch(&a, &c, &edit, 1, 0, &p, NULL), 0);
    assert_int_equal(os_replace(&a, alias, p.text, &stamp, NULL), 0);
    struct stat s;
    assert_int_equal(lstat(alias, &s), 0);
    assert_true(S_ISLNK(s.st_mode));
    assert_int_equal(stat(alias, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0640);
    assert_int_equal(os_read(&a, file, CONFIG_MAX_BYTES, &text, NULL, NULL), 0);
    assert_str(text, "batch_size: 8\n");
    unlink(alias);
    unlink(file);
    rmdir(folder);
}

static void several_edits_in_one_go(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct config c;
    struct config_patched p;
    struct fail why = {0};
    const struct config_edit edits[] = {
        {.path = STR("train.accumulate"),
         .value = STR("4"),
         .insert = true,
         .after = STR("batch_size")},
        {.path = STR("train.batch_size"), .value = STR("4")},
        {.path = STR("train.amp"),
         .value = STR("true"),
         .insert = true,
         .after = STR("batch_size")},
        {.path = STR("lr"), .value = STR("0.1")},
    };
    assert_int_equal(
        config_parse(&a, STR("c.yaml"), STR("lr: 0.2 # x\ntrain:\n  batch_size: 16\n"), &c, &why),
        0);
    assert_int_equal(config_patch(&a, &c, edits, 4, 0, &p, &why), 0);
    assert_str(p.text, "lr: 0.1 # x\ntrain:\n  batch_size: 4\n  accumulate: 4\n  amp: true\n");
    assert_int_equal(p.changes.count, 4);
    const struct config_edit twice[] = {edits[1],
                                        {.path = STR("train.batch_size"), .value = STR("2")}};
    assert_int_equal(config_patch(&a, &c, twice, 2, 0, &p, &why), FAIL_INPUT);
}

static void values_can_be_read_by_path(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct config c;
    struct config_value v;
    const struct str text = STR("a: {b: [x, 1_000]}\nlr: 1e-4\namp: on\nn: ~\n\"p.q\": '7'\n");
    assert_int_equal(config_parse(&a, STR("c.yaml"), text, &c, NULL), 0);
    assert_int_equal(config_get(&a, &c, STR("a.b[1]"), &v, NULL), 0);
    assert_int_equal(v.type, CONFIG_INT);
    assert_int_equal(v.integer, 1000);
    assert_int_equal(v.column, 12);
    assert_int_equal(config_get(&a, &c, STR("lr"), &v, NULL), 0);
    assert_true(v.number == 1e-4);
    assert_int_equal(config_get(&a, &c, STR("amp"), &v, NULL), 0);
    assert_true(v.type == CONFIG_BOOL && v.boolean);
    assert_int_equal(config_get(&a, &c, STR("n"), &v, NULL), 0);
    assert_int_equal(v.type, CONFIG_NULL);
    assert_int_equal(config_get(&a, &c, STR("\"p.q\""), &v, NULL), 0);
    assert_int_equal(v.integer, 7);
    assert_int_equal(config_get(&a, &c, STR("p.q"), &v, NULL), 0);
    assert_int_equal(v.type, CONFIG_ABSENT);
    assert_int_equal(config_get(&a, &c, STR(""), &v, NULL), FAIL_USAGE);
}

int main(void) {
    static const struct CMUnitTest others[] = {
        cmocka_unit_test(row_07_utf16_and_08_nul),
        cmocka_unit_test(row_47_long_lines_and_deep_nesting),
        cmocka_unit_test(row_48_symlink_and_mode),
        cmocka_unit_test(several_edits_in_one_go),
        cmocka_unit_test(values_can_be_read_by_path),
    };
    enum { OTHERS = sizeof others / sizeof *others };
    struct CMUnitTest tests[ROWS + OTHERS];
    for (int i = 0; i < ROWS; i++) {
        tests[i] =
            (struct CMUnitTest){rows[i].name, one_row, NULL, NULL, (void *)(uintptr_t)&rows[i]};
    }
    memcpy(tests + ROWS, others, sizeof others);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
