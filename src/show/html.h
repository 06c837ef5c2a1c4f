// SPDX-License-Identifier: Apache-2.0
// One self-contained page: style inside, light and dark by the reader's setting, no script, nothing
// fetched. Every text given here is escaped. Call open, then any of the parts in order, then close.
#ifndef SHOW_HTML_H
#define SHOW_HTML_H

#include "show/chart.h"
#include "show/table.h"

// `lead` is a line under the title; may be empty.
void show_html_open(struct buf *b, struct str title, struct str lead);
void show_html_section(struct buf *b, struct str heading);
void show_html_paragraph(struct buf *b, enum show_tone tone, struct str text);
// One large answer in a coloured frame: "FITS", and why.
void show_html_verdict(struct buf *b, enum show_tone tone, struct str word, struct str reason);
// A row of figures, each with a name over it and an optional remark below.
struct show_figure {
    struct str name, value, remark;
    enum show_tone tone;
};
void show_html_figures(struct buf *b, const struct show_figure *figures, int count);
void show_html_list(struct buf *b, const struct str *items, int count);
void show_html_notes(struct buf *b, const struct str_list *notes); // a section, when there are any
void show_html_code(struct buf *b, struct str text);               // kept as it is, fixed pitch
void show_html_table(struct buf *b, const struct show_table *t);
void show_html_chart(struct buf *b, const struct show_chart *c, struct arena *scratch);
void show_html_close(struct buf *b, struct str footer);

#endif
