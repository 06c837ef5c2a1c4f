// SPDX-License-Identifier: Apache-2.0
// The page around tables and charts. Its policy header forbids everything but its own style and the
// scripts whose hashes it names, so even a slip in escaping could not run or fetch anything.
#include "view/html/html.h"

static const char *const tone_classes[SHOW_TONES] = {"", "strong", "dim", "good", "warn", "bad"};

static void add_tag(struct buf *b, const char *open, struct str text, const char *close) {
    buf_add(b, str_of(open));
    show_escaped(b, text);
    buf_add(b, str_of(close));
}

void html_open_live(struct buf *b, struct str title, struct str lead,
                    const struct html_script *scripts, int count) {
    buf_add(b, STR("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                   "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                   "<meta http-equiv=\"Content-Security-Policy\" "
                   "content=\"default-src 'none'; style-src 'unsafe-inline'"));
    if (count > 0) buf_add(b, STR("; script-src"));
    for (int i = 0; i < count; i++) buf_format(b, " 'sha256-%s'", scripts[i].sha256);
    buf_add(b, STR("\">\n"));
    add_tag(b, "<title>", title, "</title>\n<style>\n");
    buf_add(b, chart_style_sheet());
    add_tag(b, "</style></head>\n<body><main>\n<h1>", title, "</h1>\n");
    if (lead.len) add_tag(b, "<p class=\"lead\">", lead, "</p>\n");
}

void html_open(struct buf *b, struct str title, struct str lead) {
    html_open_live(b, title, lead, NULL, 0);
}

void html_section(struct buf *b, struct str heading) {
    add_tag(b, "<h2>", heading, "</h2>\n");
}

void html_paragraph(struct buf *b, enum show_tone tone, struct str text) {
    if (tone == SHOW_PLAIN)
        buf_add(b, STR("<p>"));
    else
        buf_format(b, "<p class=\"%s\">", tone_classes[tone]);
    add_tag(b, "", text, "</p>\n");
}

void html_verdict(struct buf *b, enum show_tone tone, struct str word, struct str reason) {
    buf_format(b, "<div class=\"verdict %s\">", tone_classes[tone]);
    add_tag(b, "<b>", word, "</b>");
    add_tag(b, "", reason, "</div>\n");
}

void html_figures(struct buf *b, const struct html_figure *figures, int count) {
    buf_add(b, STR("<ul class=\"figures\">\n"));
    for (int i = 0; i < count; i++) {
        add_tag(b, "<li><span>", figures[i].name, "</span>");
        buf_format(b, "<b class=\"%s\">", tone_classes[figures[i].tone]);
        add_tag(b, "", figures[i].value, "</b>");
        if (figures[i].remark.len) add_tag(b, "<span>", figures[i].remark, "</span>");
        buf_add(b, STR("</li>\n"));
    }
    buf_add(b, STR("</ul>\n"));
}

void html_list(struct buf *b, const struct str *items, int count) {
    buf_add(b, STR("<ul>\n"));
    for (int i = 0; i < count; i++) add_tag(b, "<li>", items[i], "</li>\n");
    buf_add(b, STR("</ul>\n"));
}

void html_notes(struct buf *b, const struct str_list *notes) {
    if (notes->count == 0) return;
    html_section(b, STR("Notes"));
    html_list(b, notes->items, (int)notes->count);
}

void html_code(struct buf *b, struct str text) {
    add_tag(b, "<pre tabindex=\"0\">", text, "</pre>\n");
}

void html_table(struct buf *b, const struct show_table *t) {
    show_table_html(t, b);
}

void html_chart(struct buf *b, const struct chart *c, struct arena *scratch) {
    chart_svg(c, scratch, b);
}

void html_close(struct buf *b, struct str footer) {
    buf_add(b, STR("</main>\n"));
    if (footer.len) add_tag(b, "<footer>", footer, "</footer>\n");
    buf_add(b, STR("</body></html>\n"));
}
