#include "base/page.h"
#include <string.h>

enum {
    WIDTH = 80,
    INDENT = 2,
    TERM = 26
}; /* columns of plain text: a line, its margin, where a term's text begins */

/* Characters that troff would take for its own, or would print as typographic ones, so that what is copied
   from a manual page is no longer what was meant. Terms are bold. */
static void add_troff(struct text *out, const char *text, size_t length)
{
    if (length > 0 && (*text == '.' || *text == '\'')) text_add(out, "\\&");
    for (size_t i = 0; i < length; i++) switch (text[i]) {
        case '\\': text_add(out, "\\e"); break;
        case '-': text_add(out, "\\-"); break;
        case '\'': text_add(out, "\\(aq"); break;
        case '`': text_add(out, "\\(ga"); break;
        case '^': text_add(out, "\\(ha"); break;
        case '~': text_add(out, "\\(ti"); break;
        default: text_add(out, "%c", text[i]);
        }
}

/* Appends the words of `text`, the first line beginning at column `at`, the others after `indent` blanks. In
   troff a line is a line of source, which it fills itself. */
static void add_filled(const struct page *page, const char *text, int at, int indent)
{
    const bool plain = page->form == PAGE_PLAIN;
    const int start = at;
    while (*text) {
        size_t length = strcspn(text, " ");
        if (plain && at > start && at + 1 + (int)length > WIDTH) {
            text_add(page->out, "\n%*s", indent, "");
            at = indent;
        } else if (plain && at > start) {
            text_add(page->out, " ");
            at++;
        }
        if (plain)
            text_add(page->out, "%.*s", (int)length, text);
        else
            add_troff(page->out, text, length);
        at += (int)length;
        text += length;
        text += strspn(text, " ");
        if (!plain && *text) text_add(page->out, " ");
    }
    text_add(page->out, "\n");
}

/* In troff a heading begins a paragraph by itself. */
static void begin_paragraph(const struct page *page)
{
    const char *text = page->out->data;
    size_t at = page->out->length - 1;
    while (at > 0 && text[at - 1] != '\n') at--;
    if (strncmp(text + at, ".SH ", 4) && strncmp(text + at, ".SS ", 4)) text_add(page->out, ".PP\n");
}

void page_begin(const struct page *page, const char *name, int section, const char *summary)
{
    if (page->form == PAGE_PLAIN) return;
    text_add(page->out, ".\\\" Made from the texts of the program; do not edit.\n.TH ");
    add_troff(page->out, name, strlen(name));
    text_add(page->out, " %d \"%s\" \"Pipeleaf %s\"\n.SH NAME\n", section, pipeleaf_date, pipeleaf_version);
    add_troff(page->out, name, strlen(name));
    text_add(page->out, " \\- ");
    add_filled(page, summary, 0, 0);
}

void page_section(const struct page *page, const char *title)
{
    text_add(page->out, page->form == PAGE_PLAIN ? "\n%s\n" : ".SH %s\n", title);
}

void page_subsection(const struct page *page, const char *title)
{
    if (page->form == PAGE_PLAIN) {
        text_add(page->out, "\n%*s%s\n", INDENT, "", title);
        return;
    }
    text_add(page->out, ".SS ");
    add_troff(page->out, title, strlen(title));
    text_add(page->out, "\n");
}

void page_paragraph(const struct page *page, const char *text)
{
    if (page->form == PAGE_PLAIN)
        text_add(page->out, "%*s", INDENT, "");
    else
        begin_paragraph(page);
    add_filled(page, text, INDENT, INDENT);
}

void page_term(const struct page *page, const char *term, const char *text)
{
    if (page->form == PAGE_MAN) {
        text_add(page->out, ".TP\n\\fB");
        add_troff(page->out, term, strlen(term));
        text_add(page->out, "\\fR\n");
    } else if (INDENT + (int)strlen(term) + 2 <= TERM) {
        text_add(page->out, "%*s%-*s", INDENT, "", TERM - INDENT, term);
    } else {
        text_add(page->out, "%*s%s\n%*s", INDENT, "", term, TERM, "");
    }
    add_filled(page, text, TERM, TERM);
}

void page_literal(const struct page *page, const char *lines)
{
    const bool plain = page->form == PAGE_PLAIN;
    if (!plain) begin_paragraph(page);
    if (!plain) text_add(page->out, ".nf\n.RS\n");
    while (*lines) {
        const size_t length = strcspn(lines, "\n");
        if (plain)
            text_add(page->out, "%*s%.*s", INDENT, "", (int)length, lines);
        else
            add_troff(page->out, lines, length);
        text_add(page->out, "\n");
        lines += length + (lines[length] == '\n');
    }
    if (!plain) text_add(page->out, ".RE\n.fi\n");
}
