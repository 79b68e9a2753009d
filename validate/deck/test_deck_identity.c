/* The identity of a deck changes with all that the bits depend on, and with nothing else. */
#include "../check.h"
#include "deck/deck.h"
#include <string.h>

/* The identity of a deck under up to two overrides. */
static void identify(const char *first, const char *second, char hex[65])
{
    char a[100], b[100];
    strcpy(a, first);
    strcpy(b, second);
    char *const overrides[] = { a, b };
    struct deck deck;
    struct text error = { 0 };
    const char text[] =
        "&batch microbatches=8 microbatch_size=2 /\n&model layers=12 /\n&run device='cuda' steps=3 /";
    const bool good = deck_read(&deck, "base.nml", text, strlen(text),
                          *second  ? 2
                          : *first ? 1
                                   : 0,
                          overrides, &error) &&
                      deck_check(&deck, 0, &error);
    CHECK(good, "%s", good ? "" : error.data);
    memset(hex, 0, 65);
    if (good) deck_identity(&deck, hex);
    deck_free(&deck);
    text_free(&error);
}

int main(void)
{
    /* The base deck itself, then one change each: all different. */
    static const char *const changes[][2] = {
        { "", "" },
        { "model.layers=13", "" },
        { "model.hidden=128", "" },
        { "model.heads=8", "" },
        { "model.ffn=257", "" },
        { "model.sequence=33", "" },
        { "batch.microbatches=9", "" },
        { "batch.microbatch_size=3", "" },
        { "run.seed=1", "" },
        { "run.steps=4", "" },
        { "run.warmup_steps=3", "" },
        { "arithmetic.mode=vendor", "" },
        { "arithmetic.mode=vendor", "arithmetic.precision=bf16" },
        { "arithmetic.mode=vendor", "pipeline.channel_ctas=4" },
        { "arithmetic.mode=vendor", "arithmetic.precision=tf32" },
    };
    enum { CHANGES = sizeof changes / sizeof *changes };
    static char hex[CHANGES][65];
    for (int i = 0; i < CHANGES; i++) identify(changes[i][0], changes[i][1], hex[i]);
    for (int i = 0; i < CHANGES; i++) {
        CHECK(strspn(hex[i], "0123456789abcdef") == 64, "%s", hex[i]);
        for (int k = 0; k < i; k++)
            CHECK(strcmp(hex[i], hex[k]) != 0, "%s %s and %s %s", changes[i][0], changes[i][1], changes[k][0],
                changes[k][1]);
    }

    /* These leave it as it is. */
    static const char *const indifferent[][2] = {
        { "pipeline.ranks=3", "" },
        { "pipeline.chunks_per_rank=3", "" },
        { "pipeline.layers_per_chunk=12,0", "" },
        { "pipeline.schedule=gpipe", "pipeline.chunks_per_rank=1" },
        { "pipeline.group=8", "" },
        { "pipeline.schedule=file", "pipeline.schedule_file=a.csv" },
        { "pipeline.schedule=zb-v", "" },
        { "run.device=rehearsal", "" },
        { "machine.forward=0.01", "machine.backward=0.02" },
        { "machine.input=0.01", "machine.weight=0.02" },
        { "machine.flop_rate=1e12", "" },
        { "machine.latency=1e-5", "machine.bandwidth=1e9" },
        { "pipeline.overlap=f", "" },
        { "pipeline.self_channels=t", "pipeline.channel_ctas=8" },
        { "run.device=cuda", "run.share_device=t" },
        { "batch.microbatches=16", "batch.microbatch_size=1" },
        { "batch.microbatches=1", "batch.microbatch_size=16" },
        { "run.steps=2", "run.warmup_steps=2" },
        { "run.threads=2", "run.timeout=5" },
        { "run.progress=1", "run.quiet=t" },
        { "run.device=host", "run.transport=mpi" },
        { "model.ffn=256", "" },
        { "verify.against=none", "verify.steps=all" },
        { "target.fom=1e6", "target.bubble_max=0.5" },
        { "output.directory=elsewhere", "output.timeline=f" },
        { "output.activations=none", "output.gradients=digest" },
        { "output.parameters=full", "" },
    };
    for (size_t i = 0; i < sizeof indifferent / sizeof *indifferent; i++) {
        char other[65];
        identify(indifferent[i][0], indifferent[i][1], other);
        CHECK(strcmp(other, hex[0]) == 0, "%s %s", indifferent[i][0], indifferent[i][1]);
    }
    return check_result();
}
