/* What the bits of a run depend on, as one number: two decks with the same identity must give the same
 * digests. */
#include "deck/deck.h"
#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* The version of the arithmetic contract: raised when a change makes other bits of the same deck, so that
   digests of before are not looked for. */
enum { CONTRACT = 1 };

/* The canonical text, each item on a line of its own:

       contract=1             the version above
       layers=8 hidden=64 heads=4 ffn=256 sequence=32      (five lines) the model, ffn as it is used
       sequences=16           of a step, however they are split into microbatches
       seed=20250101
       mode=portable
       precision=fp32
       steps=5                that are digested: warm-up, timed, recorded
       microbatch_size=2      in vendor mode alone, whose bits depend on these
       channel_ctas=2
*/
void deck_identity(const struct deck *deck, char hex[65])
{
    assert(deck->model.ffn > 0);
    struct text text = { 0 };
    text_add(&text, "contract=%d\n", CONTRACT);
    text_add(&text, "layers=%" PRId64 "\n", deck->model.layers);
    text_add(&text, "hidden=%" PRId64 "\n", deck->model.hidden);
    text_add(&text, "heads=%" PRId64 "\n", deck->model.heads);
    text_add(&text, "ffn=%" PRId64 "\n", deck->model.ffn);
    text_add(&text, "sequence=%" PRId64 "\n", deck->model.sequence);
    text_add(&text, "sequences=%" PRId64 "\n", deck->batch.microbatches * deck->batch.microbatch_size);
    text_add(&text, "seed=%" PRId64 "\n", deck->run.seed);
    text_add(&text, "mode=%s\n", deck->arithmetic.mode);
    text_add(&text, "precision=%s\n", deck->arithmetic.precision);
    text_add(&text, "steps=%" PRId64 "\n", deck->run.warmup_steps + deck->run.steps + 1);
    if (strcmp(deck->arithmetic.mode, "vendor") == 0) {
        text_add(&text, "microbatch_size=%" PRId64 "\n", deck->batch.microbatch_size);
        text_add(&text, "channel_ctas=%" PRId64 "\n", deck->pipeline.channel_ctas);
    }
    sha256_hex(text.data, text.length, hex);
    text_free(&text);
}
