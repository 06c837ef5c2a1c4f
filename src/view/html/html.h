// SPDX-License-Identifier: Apache-2.0
// One self-contained page: style inside, light and dark by the reader's setting, no script but
// ours, nothing fetched. Every text given here is escaped. Call open, then any of the parts in
// order, then close.
#pragma once

#include "view/chart/chart.h"
#include "view/show/show.h"

// `lead` is a line under the title; may be empty.
void html_open(struct buf *b, struct str title, struct str lead);
// The same with scripts of ours, the only ones that the page's policy lets run: html_script puts
// each where it is to run.
struct html_script {
    struct str text;
    const char *sha256; // in base64
};
void html_open_live(struct buf *b, struct str title, struct str lead,
                    const struct html_script *scripts, int count);
void html_script(struct buf *b, const struct html_script *script);
// What a script reads, in an element of that id: JSON, and any bytes, by gzip and in base64.
void html_data(struct buf *b, const char *id, struct str json);
void html_packed(struct buf *b, const char *id, struct str bytes);
void html_section(struct buf *b, struct str heading);
void html_paragraph(struct buf *b, enum show_tone tone, struct str text);
// One large answer in a coloured frame: "FITS", and why.
void html_verdict(struct buf *b, enum show_tone tone, struct str word, struct str reason);
// A row of figures, each with a name over it and an optional remark below.
struct html_figure {
    struct str name, value, remark;
    enum show_tone tone;
};
void html_figures(struct buf *b, const struct html_figure *figures, int count);
void html_list(struct buf *b, const struct str *items, int count);
void html_notes(struct buf *b, const struct str_list *notes); // a section, when there are any
void html_code(struct buf *b, struct str text);               // kept as it is, fixed pitch
void html_table(struct buf *b, const struct show_table *t);
void html_chart(struct buf *b, const struct chart *c, struct arena *scratch);
void html_close(struct buf *b, struct str footer);
