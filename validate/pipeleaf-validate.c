/* pipeleaf-validate: compares two outputs of pipeleaf bit for bit, without running anything. */
#include "report/verify.h"
#include "validate_help.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int exit_of[] = {
    [SUCCESSFUL] = EXIT_DONE, [UNSUCCESSFUL] = EXIT_WRONG, [NOT_PERFORMED] = EXIT_NOT_VERIFIED
};

static int conclude(enum verdict verdict, int code)
{
    printf("VERIFICATION = %s\n", verdict_text[verdict]);
    if (fflush(stdout)) {
        perror("pipeleaf-validate: standard output");
        return EXIT_FAILED;
    }
    return code;
}

static int help(enum page_form form)
{
    struct text text = { 0 };
    validate_help(form, &text);
    if (fputs(text.data, stdout) < 0 || fflush(stdout)) fail("cannot write to standard output");
    text_free(&text);
    return EXIT_DONE;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return help(PAGE_PLAIN);
        if (!strcmp(argv[i], "--man")) return help(PAGE_MAN);
        if (!strcmp(argv[i], "--version")) {
            printf("pipeleaf-validate %s (%s), %s\n", pipeleaf_version, pipeleaf_commit, output_library());
            return EXIT_DONE;
        }
        if (argv[i][0] == '-') fail("option '%s': there are only --help, --version and --man", argv[i]);
    }
    if (argc != 2 && argc != 3)
        fail("%d arguments: there must be two, RUN and REFERENCE, or one DIRECTORY that holds both; "
             "pipeleaf-validate --help says more",
            argc - 1);
    struct side *run = NULL, *reference = NULL;
    struct text error = { 0 }, out = { 0 };
    enum verdict verdict = NOT_PERFORMED;
    const bool one_directory = argc == 2;
    const bool open =
        side_open(&run, argv[1], "run", &error) && side_open(&reference, argv[argc - 1], "reference", &error);
    if (!open) {
        fprintf(stderr, "pipeleaf-validate: error: %s\n", error.data);
    } else if (one_directory && !strcmp(side_kind(run), side_kind(reference))) {
        printf("'%s' holds only a %s: nothing to compare it with\n", argv[1], side_kind(run));
    } else {
        verdict = verify(run, reference, &out);
        fputs(out.data, stdout);
    }
    text_free(&out);
    text_free(&error);
    side_close(run);
    side_close(reference);
    return conclude(verdict, open ? exit_of[verdict] : EXIT_FAILED);
}
