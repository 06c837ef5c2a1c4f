// SPDX-License-Identifier: Apache-2.0
// The page around tables and charts. Its policy header forbids everything but its own style, so
// even a slip in escaping could not run or fetch anything.
#include "show/html.h"

#include "show/chart_int.h"

const char html_style_sheet[] =
    ":root{color-scheme:light dark;--bg:#fff;--panel:#f6f7f9;--text:#1c2128;--dim:#5d6672;"
    "--rule:#dfe3e8;--good:#1a7f37;--warn:#9a6700;--bad:#c02a2a;"
    "--c0:#4477aa;--c1:#e0913a;--c2:#4b9d6f;--c3:#c7588b;--c4:#8166b0;--c5:#3aa0b8;--c6:#b5a33a;"
    "--c7:#8c6d4f;--c8:#7a8793;--c9:#c25a4b}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#14181d;--panel:#1c2229;--text:#e4e8ec;"
    "--dim:#98a2ad;--rule:#323a43;--good:#4cc26a;--warn:#dcab3c;--bad:#f47067;"
    "--c0:#6a9fd4;--c1:#e9a65c;--c2:#6cba8c;--c3:#d981aa;--c4:#a48dd0;--c5:#62bdd2;--c6:#cbbd62;"
    "--c7:#b3937a;--c8:#96a3af;--c9:#d8806f}}\n"
    "*{box-sizing:border-box}body{margin:0 auto;max-width:62rem;padding:2rem 1.25rem 3rem;"
    "background:var(--bg);color:var(--text);font:16px/1.55 system-ui,-apple-system,\"Segoe UI\","
    "\"Noto Sans\",\"Noto Sans CJK KR\",\"Malgun Gothic\",sans-serif}\n"
    "h1{font-size:1.7rem;line-height:1.25;margin:0 0 .3rem}h2{font-size:1.2rem;margin:2.2rem 0 "
    ".7rem;"
    "padding-bottom:.3rem;border-bottom:1px solid var(--rule)}.lead{color:var(--dim);margin:0 0 "
    "1.5rem}"
    "p{margin:.6rem 0}ul{padding-left:1.2rem}footer{margin-top:3rem;padding-top:.8rem;"
    "border-top:1px solid var(--rule);color:var(--dim);font-size:.85rem}\n"
    ".strong{font-weight:600}.dim{color:var(--dim)}.good{color:var(--good)}.warn{color:var(--warn)}"
    ".bad{color:var(--bad)}\n"
    ".verdict{border-left:5px solid var(--rule);background:var(--panel);border-radius:4px;"
    "padding:.8rem 1.1rem;margin:1rem 0;color:var(--text)}.verdict "
    "b{display:block;font-size:1.35rem}"
    ".verdict.good{border-color:var(--good)}.verdict.good b{color:var(--good)}"
    ".verdict.warn{border-color:var(--warn)}.verdict.warn b{color:var(--warn)}"
    ".verdict.bad{border-color:var(--bad)}.verdict.bad b{color:var(--bad)}\n"
    ".figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.8rem;"
    "margin:1rem 0;padding:0;list-style:none}.figures li{background:var(--panel);border-radius:6px;"
    "padding:.7rem .9rem}.figures span{display:block;color:var(--dim);font-size:.82rem}"
    ".figures b{display:block;font-size:1.3rem;font-variant-numeric:tabular-nums}\n"
    ".scroll{overflow-x:auto;margin:.8rem "
    "0}table{border-collapse:collapse;width:100%;font-size:.93rem}"
    "caption{text-align:left;font-weight:600;padding:.3rem 0}th,td{padding:.38rem "
    ".7rem;text-align:left;"
    "border-bottom:1px solid "
    "var(--rule);vertical-align:top;white-space:nowrap}td.w{white-space:normal;"
    "min-width:14rem}th{color:var(--dim);font-weight:600;"
    "font-size:.85rem}th:first-child,td:first-child{padding-left:.2rem}"
    ".n{text-align:right;font-variant-numeric:tabular-nums}\n"
    "pre{background:var(--panel);border-radius:6px;padding:.9rem 1.1rem;overflow-x:auto;"
    "font:.88rem/1.5 ui-monospace,\"DejaVu Sans Mono\",monospace}\n"
    ".chart{margin:1rem "
    "0}figcaption{font-weight:600}.chart>svg{display:block;width:100%;height:auto}.chart "
    "text{font-size:13px;"
    "fill:var(--text)}.chart text.dim{fill:var(--dim)}.chart text.warn{fill:var(--warn)}"
    ".chart text.bad{fill:var(--bad)}.chart text.strong,.chart text.bad,.chart text.warn{"
    "paint-order:stroke;stroke:var(--bg);stroke-width:4px;stroke-linejoin:round}"
    ".grid{stroke:var(--rule);stroke-width:1}.span{fill:var(--panel)}"
    ".area{fill-opacity:.86;stroke:none}.line{fill:none!important;stroke-width:2.2;"
    "stroke-linejoin:round}.mark{fill:none;stroke-width:1.6;stroke-dasharray:7 5}"
    ".mark.bad{stroke:var(--bad)}.mark.warn{stroke:var(--warn)}.peak{fill:var(--bg);"
    "stroke:var(--text);stroke-width:2}.strip{fill:transparent}.strip:hover{fill:var(--text);"
    "fill-opacity:.09}\n"
    ".legend{display:flex;flex-wrap:wrap;gap:.25rem 1.2rem;margin:.4rem 0 0;padding:0 0 0 4.6rem;"
    "list-style:none;font-size:.88rem}.key{width:.8em;height:.8em;margin-right:.45em}\n"
    ".c0{fill:var(--c0);stroke:var(--c0)}.c1{fill:var(--c1);stroke:var(--c1)}"
    ".c2{fill:var(--c2);stroke:var(--c2)}.c3{fill:var(--c3);stroke:var(--c3)}"
    ".c4{fill:var(--c4);stroke:var(--c4)}.c5{fill:var(--c5);stroke:var(--c5)}"
    ".c6{fill:var(--c6);stroke:var(--c6)}.c7{fill:var(--c7);stroke:var(--c7)}"
    ".c8{fill:var(--c8);stroke:var(--c8)}.c9{fill:var(--c9);stroke:var(--c9)}\n"
    "@media print{body{max-width:none;padding:0}pre{white-space:pre-wrap;overflow-wrap:anywhere}"
    ".scroll{overflow:visible}table{font-size:.8rem}th{white-space:normal}th,td{padding:.3rem "
    ".35rem}"
    "h2{break-after:avoid}.chart,.verdict,tr{"
    "break-inside:avoid}}\n";

static const char *const tone_classes[SHOW_TONES] = {"", "strong", "dim", "good", "warn", "bad"};

static void add_tag(struct buf *b, const char *open, struct str text, const char *close) {
    buf_add(b, str_of(open));
    show_escaped(b, text);
    buf_add(b, str_of(close));
}

void show_html_open(struct buf *b, struct str title, struct str lead) {
    buf_add(b, STR("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                   "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                   "<meta http-equiv=\"Content-Security-Policy\" "
                   "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"));
    add_tag(b, "<title>", title, "</title>\n<style>\n");
    buf_add(b, str_of(html_style_sheet));
    add_tag(b, "</style></head>\n<body>\n<h1>", title, "</h1>\n");
    if (lead.len) add_tag(b, "<p class=\"lead\">", lead, "</p>\n");
}

void show_html_section(struct buf *b, struct str heading) {
    add_tag(b, "<h2>", heading, "</h2>\n");
}

void show_html_paragraph(struct buf *b, enum show_tone tone, struct str text) {
    if (tone == SHOW_PLAIN)
        buf_add(b, STR("<p>"));
    else
        buf_format(b, "<p class=\"%s\">", tone_classes[tone]);
    add_tag(b, "", text, "</p>\n");
}

void show_html_verdict(struct buf *b, enum show_tone tone, struct str word, struct str reason) {
    buf_format(b, "<div class=\"verdict %s\">", tone_classes[tone]);
    add_tag(b, "<b>", word, "</b>");
    add_tag(b, "", reason, "</div>\n");
}

void show_html_figures(struct buf *b, const struct show_figure *figures, int count) {
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

void show_html_list(struct buf *b, const struct str *items, int count) {
    buf_add(b, STR("<ul>\n"));
    for (int i = 0; i < count; i++) add_tag(b, "<li>", items[i], "</li>\n");
    buf_add(b, STR("</ul>\n"));
}

void show_html_notes(struct buf *b, const struct str_list *notes) {
    if (notes->count == 0) return;
    show_html_section(b, STR("Notes"));
    show_html_list(b, notes->items, (int)notes->count);
}

void show_html_code(struct buf *b, struct str text) {
    add_tag(b, "<pre>", text, "</pre>\n");
}

void show_html_table(struct buf *b, const struct show_table *t) {
    show_table_html(t, b);
}

void show_html_chart(struct buf *b, const struct show_chart *c, struct arena *scratch) {
    show_chart_svg(c, scratch, b);
}

void show_html_close(struct buf *b, struct str footer) {
    if (footer.len) add_tag(b, "<footer>", footer, "</footer>\n");
    buf_add(b, STR("</body></html>\n"));
}
