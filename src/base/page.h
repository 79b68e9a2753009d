/* A page of documentation, written once and made into what --help prints or into a manual page's source
   (man(7), for groff and mandoc). Texts are plain: no mark-up but what the functions are. */
#pragma once
#include "base/base.h"

enum page_form { PAGE_PLAIN, PAGE_MAN };
struct page {
    enum page_form form;
    struct text *out; /* the caller's, appended to */
};

/* Title lines. name: "pipeleaf"; summary: one phrase. Plain text gets none. */
void page_begin(const struct page *page, const char *name, int section, const char *summary);
/* A heading: "EXIT STATUS". */
void page_section(const struct page *page, const char *title);
/* A heading within a section. */
void page_subsection(const struct page *page, const char *title);
void page_paragraph(const struct page *page, const char *text);
/* What is said of a word: an option, a file, an exit code. */
void page_term(const struct page *page, const char *term, const char *text);
/* Lines as they are: commands to type. */
void page_literal(const struct page *page, const char *lines);
