/* What a run is verified against: &verify. */
#include "command/setup.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* The reference that 'auto' stands for: a shipped digest file, else one that `pipeleaf reference` left in the
 * directory. */
static bool automatic_reference(const char *directory, const struct identity_card *card, struct text *path)
{
    if (reference_find(card->identity, path)) return true;
    struct text digest = { 0 }, error = { 0 };
    struct digest_file file = { 0 };
    text_add(&digest, "%s/reference.digest", directory);
    bool found = access(digest.data, R_OK) == 0 && digest_file_read(digest.data, &file, &error);
    if (found) {
        found = strcmp(file.identity, card->identity) == 0;
        digest_file_free(&file);
    }
    if (found) text_add(path, "%s", directory);
    text_free(&digest);
    text_free(&error);
    return found;
}

enum verdict setup_verify(const struct deck *deck, const char *directory, const struct identity_card *card,
    const struct tensor_digest *lines, size_t count, struct text *out, bool *asked, int *rank)
{
    const char *against = deck->verify.against;
    struct text path = { 0 }, error = { 0 };
    struct side *run = NULL, *reference = NULL;
    enum verdict verdict = NOT_PERFORMED;
    *asked = strcmp(against, "auto") != 0 && strcmp(against, "none") != 0;
    *rank = -1;

    if (strcmp(against, "none") == 0) {
        text_add(out, "not asked for: verify.against='none'\n");
        return NOT_PERFORMED;
    }
    if (*asked) text_add(&path, "%s", against);
    if (!*asked && !automatic_reference(directory, card, &path)) {
        text_add(out,
            "no reference for this computation: neither a shipped digest file (identity %.16s) nor one in "
            "'%s';\n",
            card->identity, directory);
        text_add(out, "run `pipeleaf reference` with this deck first\n");
    } else if (strcmp(deck->output.gradients, "none") == 0) {
        text_add(out, "this run has no gradients to compare: output.gradients='none'\n");
    } else if (!side_open(&reference, path.data, "reference", &error)) {
        text_add(out, "%s\n", error.data);
    } else {
        text_add(out, "against %s\n", path.data);
        /* Digests in memory are enough against digests; against files with tensors, what lies on the disk is
         * compared. */
        if (ends_with(path.data, ".digest"))
            run = side_of_lines(&card->facts, lines, count, "this run");
        else if (!side_open(&run, deck->output.directory, "run", &error))
            text_add(out, "%s\n", error.data);
        if (run) verdict = verify_and_locate(run, reference, out, rank);
    }
    if (run) side_close(run);
    if (reference) side_close(reference);
    text_free(&path);
    text_free(&error);
    return verdict;
}
