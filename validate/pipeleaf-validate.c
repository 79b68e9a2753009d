/* pipeleaf-validate: compares two outputs of pipeleaf bit for bit, without running anything. */
#include "report/verify.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: pipeleaf-validate RUN REFERENCE\n"
    "       pipeleaf-validate DIRECTORY          (that holds both)\n"
    "\n"
    "Compares two outputs of pipeleaf, bit for bit. RUN and REFERENCE are an output directory, an HDF5 file\n"
    "(run.h5, reference.h5, a rank file) or a digest file (digest.txt, reference.digest, a shipped one); any "
    "pair\n"
    "works. Full tensors are compared where both sides have them, digests elsewhere.\n"
    "\n"
    "The last line is VERIFICATION = SUCCESSFUL, UNSUCCESSFUL or NOT PERFORMED. Exit codes:\n"
    "  0  SUCCESSFUL: every gradient tensor of every layer is the same on both sides\n"
    "  2  UNSUCCESSFUL: something differs, is missing, is NaN, or is of another run or computation\n"
    "  3  NOT PERFORMED: the two hold nothing that would prove it\n"
    "  1  a file cannot be read, or wrong usage\n";

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

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            fputs(usage, stdout);
            return EXIT_DONE;
        }
        if (!strcmp(argv[i], "--version")) {
            printf("pipeleaf-validate %s (%s), %s\n", pipeleaf_version, pipeleaf_commit, output_library());
            return EXIT_DONE;
        }
        if (argv[i][0] == '-') fail("option '%s': there is only --help and --version", argv[i]);
    }
    if (argc != 2 && argc != 3) {
        fputs(usage, stderr);
        return EXIT_FAILED;
    }
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
