/* What a chunk costs on the deck's &machine: what the deck says, else model FLOPs over the rate, a half of B
   for I and W each; as many layers as the chunk has. */
#include "command/costs.h"
#include "check.h"
#include <math.h>
#include <string.h>

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-12 * fabs(b);
}

static struct deck deck_of(const char *machine)
{
    struct deck deck;
    struct text text = { 0 }, error = { 0 };
    text_add(&text,
        "&model layers=4 hidden=8 heads=2 sequence=4 /\n&batch microbatches=2 microbatch_size=3 /\n"
        "&pipeline ranks=3 chunks_per_rank=1 layers_per_chunk=3,0,1 /\n&machine %s /\n",
        machine);
    if (!deck_read(&deck, "deck", text.data, text.length, 0, NULL, &error) || !deck_check(&deck, 0, &error))
        fail("%s", error.data);
    text_free(&text);
    return deck;
}

static void costs_are(
    const char *machine, double f, double b, double i, double w, double latency, double transfer)
{
    struct deck deck = deck_of(machine);
    const struct model model = setup_model(&deck);
    struct partition partition = setup_partition(&deck, 3);
    struct machine_costs costs = machine_costs_of(&deck, &model, &partition);
    const double layer[COMPUTE_KINDS] = { f, b, i, w };
    static const int layers[] = { 3, 0, 1 };
    for (int kind = 0; kind < COMPUTE_KINDS; kind++) {
        CHECK(costs.costs.seconds[kind] == costs.seconds[kind], "%s: the view is another array", machine);
        for (int chunk = 0; chunk < 3; chunk++)
            CHECK(near(costs.seconds[kind][chunk], layers[chunk] * layer[kind]),
                "%s: %c of chunk %d costs %g, not %g", machine, compute_letter[kind], chunk,
                costs.seconds[kind][chunk], layers[chunk] * layer[kind]);
    }
    CHECK(near(costs.costs.latency, latency) && near(costs.costs.transfer, transfer),
        "%s: a message takes %g + %g", machine, costs.costs.latency, costs.costs.transfer);
    machine_costs_free(&costs);
    partition_free(&partition);
    deck_free(&deck);
}

int main(void)
{
    costs_are("forward=1.0 backward=3.0 input=1.25 weight=1.5", 1, 3, 1.25, 1.5, 0, 0);
    costs_are("forward=1.0 backward=3.0", 1, 3, 1.5, 1.5, 0, 0);
    costs_are("forward=1.0 backward=3.0 input=1.25", 1, 3, 1.25, 1.5, 0, 0);
    /* Tokens n = 12, h = 8, f = 32: GEMMs 2 n (4 h^2 + 2 h f) = 18432, attention of each of 3 sequences 2
     * products of 2 h s (s + 1) / 2 = 160. */
    const double forward = 18432 + 3 * 2 * 160, backward = 2 * forward;
    costs_are(
        "flop_rate=1e3 latency=0.5", forward / 1e3, backward / 1e3, backward / 2e3, backward / 2e3, 0.5, 0);
    costs_are("forward=1.0 flop_rate=1e3", 1, backward / 1e3, backward / 2e3, backward / 2e3, 0, 0);
    /* A message is n h fp32 words: 384 bytes. */
    costs_are("forward=1.0 backward=2.0 bandwidth=768.0", 1, 2, 1, 1, 0, 0.5);
    return check_result();
}
