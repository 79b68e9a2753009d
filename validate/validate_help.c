#include "validate_help.h"

/* clang-format off */
static const struct {
    const char *section, *term, *text; /* a section goes on until the next; no term: a paragraph */
} rows[] = {
    { "USAGE", NULL, "pipeleaf-validate RUN REFERENCE" },
    { NULL, NULL, "pipeleaf-validate DIRECTORY" },
    { NULL, NULL, "pipeleaf-validate --help | --version | --man" },
    { "DESCRIPTION", NULL, "Compares two outputs of pipeleaf, bit for bit, from the files alone: nothing is run, and neither MPI nor a "
        "device is needed. Full tensors are compared where both sides have them, digests elsewhere. It names the first difference in "
        "dataflow order: step, layer, tensor, rank, element. The last line is VERIFICATION = SUCCESSFUL, UNSUCCESSFUL or NOT "
        "PERFORMED." },
    { "ARGUMENTS", "RUN, REFERENCE", "an output directory, an HDF5 file (run.h5, reference.h5, a rank file) or a digest file "
        "(digest.txt, reference.digest, a shipped one); any pair works" },
    { NULL, "DIRECTORY", "holds both, a run's files and a reference's" },
    { "OPTIONS", "--help, -h", "this text" },
    { NULL, "--version", "version, commit and HDF5's version" },
    { NULL, "--man", "the source of the manual page" },
    { "EXIT STATUS", "0", "SUCCESSFUL: every gradient tensor of every layer is the same on both sides" },
    { NULL, "1", "a file cannot be read, or wrong usage" },
    { NULL, "2", "UNSUCCESSFUL: something differs, is missing, is NaN, or is of another run or computation" },
    { NULL, "3", "NOT PERFORMED: the two hold nothing that would prove it" },
    { "FILES", NULL, "Reads those that pipeleaf(1) writes, and writes none." },
    { "ENVIRONMENT", NULL, "None is read." },
};
static const char examples[] =
    "pipeleaf-validate out/tiny\n"
    "pipeleaf-validate out/tiny/digest.txt reference/tiny.d4602b6b44146e59.digest\n"
    "pipeleaf-validate out/monday out/tuesday\n";
/* clang-format on */

void validate_help(enum page_form form, struct text *out)
{
    static const char summary[] = "compares two outputs of pipeleaf bit for bit";
    const struct page page = { form, out };
    if (form == PAGE_PLAIN) text_add(out, "pipeleaf-validate - %s\n", summary);
    page_begin(&page, "pipeleaf-validate", 1, summary);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].section) page_section(&page, i == 0 && form == PAGE_MAN ? "SYNOPSIS" : rows[i].section);
        if (rows[i].term)
            page_term(&page, rows[i].term, rows[i].text);
        else
            page_paragraph(&page, rows[i].text);
    }
    page_section(&page, "EXAMPLES");
    page_literal(&page, examples);
    page_section(&page, "SEE ALSO");
    page_paragraph(&page, "pipeleaf(1), pipeleaf-deck(5), README.md");
}
