/* The check refuses every kind of broken program, each for its own reason, with a counterexample in words.
   Each test breaks one thing in a sound program, or orders the computes by hand in a way that no generator
   does. */
#include "broken.h"

static void computes(void)
{
    struct program p = sound_program("1f1b", 2, 1, 4);
    take_out(&p, 1, find(&p, 1, OPERATION_COMPUTE, B(1, 2)));
    refused("missing B", &p, "rank 1 never runs B chunk 1 microbatch 2");

    p = sound_program("1f1b", 2, 1, 4);
    put_in(&p, 0, p.rank[0].count, *get(&p, 0, OPERATION_COMPUTE, F(0, 1)));
    refused("duplicate F", &p, "rank 0, operation 16, F chunk 0 microbatch 1: for the second time");

    p = sound_program("gpipe", 2, 1, 3);
    put_in(&p, 1, 0, take_out(&p, 1, find(&p, 1, OPERATION_COMPUTE, B(1, 0))));
    refused("B before F", &p, "rank 1, operation 0, B chunk 1 microbatch 0: its F has not run before it");

    p = sound_program("1f1b", 2, 1, 4);
    put_in(&p, 0, 0, take_out(&p, 1, find(&p, 1, OPERATION_COMPUTE, F(1, 0))));
    refused("compute on another rank", &p,
        "rank 0, operation 0, F chunk 1 microbatch 0: rank 1 holds that chunk");

    p = sound_program("1f1b", 2, 1, 4);
    get(&p, 0, OPERATION_COMPUTE, B(0, 3))->compute.microbatch = 4;
    refused("compute that is not", &p,
        "rank 0, operation 15, B chunk 0 microbatch 4: there is no such microbatch");

    p = sound_program("1f1b", 2, 1, 4);
    get(&p, 0, OPERATION_COMPUTE, B(0, 3))->compute.kind = COMPUTE_W;
    refused(
        "half a backward", &p, "rank 0, operation 15, W chunk 0 microbatch 3: its I has not run before it");

    p = sound_program("1f1b", 2, 1, 4);
    get(&p, 0, OPERATION_COMPUTE, B(0, 3))->compute.kind = COMPUTE_KINDS;
    refused("a kind that is not", &p,
        "rank 0, operation 15, ? chunk 0 microbatch 3: a program consists of F, B, I and W");
}

/* Rank 1 of zb-h1, p=2, m=3: recv recv F0 recv I0 send F1 I1 send W0 F2 I2 send W1 W2. */
static void halves(void)
{
    struct program p = sound_program("zb-h1", 2, 1, 3);
    take_out(&p, 1, find(&p, 1, OPERATION_COMPUTE, W(1, 2)));
    refused("missing W", &p, "rank 1 never runs W chunk 1 microbatch 2");

    p = sound_program("zb-h1", 2, 1, 3);
    take_out(&p, 1, find(&p, 1, OPERATION_COMPUTE, I(1, 2)));
    refused("missing I", &p, "rank 1, operation 13, W chunk 1 microbatch 2: its I has not run before it");

    p = sound_program("zb-h1", 2, 1, 3);
    struct operation moved = take_out(&p, 1, find(&p, 1, OPERATION_COMPUTE, W(1, 0)));
    put_in(&p, 1, find(&p, 1, OPERATION_COMPUTE, I(1, 0)), moved);
    refused("W before its I", &p, "rank 1, operation 4, W chunk 1 microbatch 0: its I has not run before it");

    p = sound_program("zb-h1", 2, 1, 3);
    moved = take_out(&p, 1, find(&p, 1, OPERATION_COMPUTE, I(1, 1)));
    put_in(&p, 1, find(&p, 1, OPERATION_COMPUTE, F(1, 1)), moved);
    refused("I before its F", &p, "rank 1, operation 6, I chunk 1 microbatch 1: its F has not run before it");

    p = sound_program("zb-h1", 2, 1, 3);
    put_in(&p, 1, p.rank[1].count, *get(&p, 1, OPERATION_COMPUTE, W(1, 1)));
    refused("W twice", &p, "rank 1, operation 15, W chunk 1 microbatch 1: for the second time");

    p = sound_program("zb-h1", 2, 1, 3);
    moved = *get(&p, 1, OPERATION_COMPUTE, I(1, 2));
    moved.compute.kind = COMPUTE_B;
    put_in(&p, 1, p.rank[1].count, moved);
    refused("both I and B", &p,
        "rank 1, operation 15, B chunk 1 microbatch 2: a backward is either B, or I and W, and this one has "
        "had its other kind");

    p = sound_program("1f1b", 2, 1, 4);
    moved = *get(&p, 1, OPERATION_COMPUTE, B(1, 3));
    moved.compute.kind = COMPUTE_I;
    put_in(&p, 1, p.rank[1].count, moved);
    refused("both B and I", &p,
        "rank 1, operation 16, I chunk 1 microbatch 3: a backward is either B, or I and W, and this one has "
        "had its other kind");

    p = sound_program("zb-h1", 2, 1, 3);
    moved = take_out(&p, 1, find(&p, 1, OPERATION_COMPUTE, W(1, 1)));
    put_in(&p, 1, p.rank[1].count, moved);
    refused("descending W", &p,
        "rank 1, operation 14, W chunk 1 microbatch 1: comes after microbatch 2, but a chunk's weight "
        "gradients sum microbatches in ascending order");

    p = sound_program("zb-h1", 2, 1, 3);
    get(&p, 1, OPERATION_COMPUTE, F(1, 1))->slot = 0;
    refused("slot reused between I and W", &p,
        "rank 1, operation 6, F chunk 1 microbatch 1: slot 0 holds F chunk 1 microbatch 0 until its W");

    p = sound_program("zb-h1", 2, 1, 3);
    get(&p, 1, OPERATION_COMPUTE, W(1, 0))->slot = 1;
    refused("W of another slot", &p,
        "rank 1, operation 9, W chunk 1 microbatch 0: slot 1 holds F chunk 1 microbatch 1 until its W");

    p = sound_program("zb-h1", 2, 1, 3);
    get(&p, 1, OPERATION_COMPUTE, I(1, 2))->slot = 0;
    get(&p, 1, OPERATION_COMPUTE, F(1, 2))->slot = 0;
    take_out(&p, 1, find(&p, 1, OPERATION_COMPUTE, F(1, 1)));
    refused(
        "missing F of an I", &p, "rank 1, operation 6, I chunk 1 microbatch 1: its F has not run before it");

    p = sound_program("zb-h1", 2, 1, 3);
    get(&p, 0, OPERATION_COMPUTE, W(0, 0))->input = (struct endpoint){ 1, 0 };
    refused("W with an input", &p,
        "rank 0, operation 8, W chunk 0 microbatch 0: its input is on channel 1, but the placement has it on "
        "-1 (none)");

    p = sound_program("zb-h1", 2, 1, 3);
    get(&p, 0, OPERATION_RECEIVE, I(0, 0))->compute.kind = COMPUTE_B;
    refused("receive for a B that is an I", &p,
        "rank 0, operation 0, receive for B chunk 0 microbatch 0: nothing is sent to this rank for that");

    p = sound_program("zb-h1", 2, 1, 3);
    get(&p, 1, OPERATION_SEND, I(1, 0))->compute.kind = COMPUTE_B;
    refused("send of a B that is an I", &p,
        "rank 1, operation 5, send of B chunk 1 microbatch 0: this rank has no such message to send");

    p = sound_program("zb-h1", 2, 1, 3);
    get(&p, 0, OPERATION_RECEIVE, I(0, 1))->input.buffer = 0;
    refused("receive into the buffer of another I", &p,
        "rank 0, operation 1, receive for I chunk 0 microbatch 1: receive buffer 0 of gradients 1 -> 0 is "
        "still "
        "to be read by I chunk 0 microbatch 0");

    p = sound_program("zb-h1", 2, 1, 3);
    get(&p, 1, OPERATION_SEND, I(1, 0))->compute.kind = COMPUTE_W;
    refused("send of a W", &p,
        "rank 1, operation 5, send of W chunk 1 microbatch 0: this rank has no such message to send");

    p = sound_program("zb-h1", 2, 1, 3);
    struct operation *a = get(&p, 0, OPERATION_RECEIVE, I(0, 0)), *b = get(&p, 0, OPERATION_RECEIVE, I(0, 1));
    moved = *a;
    *a = *b;
    *b = moved;
    refused("swapped receives of gradients", &p,
        "message 0 of gradients 1 -> 0: rank 1 sends the output of I chunk 1 microbatch 0, but rank 0 "
        "receives it for its I chunk 0 microbatch 1");
}

/* Nothing is summed in an I, so that only what it waits for orders it; and whether a backward is in halves is
   each one's own affair. */
static void other_orders_are_sound(void)
{
    struct compute descending[] = { F(0, 0), F(0, 1), I(0, 1), I(0, 0), W(0, 0), W(0, 1) };
    int rank_of[] = { 0, 1 }, count[] = { 6, 5 };
    sound("descending I", by_hand(1, 1, rank_of, 2, (struct compute *[]){ descending }, count));

    struct compute below[] = { F(0, 0), F(0, 1), B(0, 0), I(0, 1), W(0, 1) };
    struct compute above[] = { F(1, 0), I(1, 0), F(1, 1), W(1, 0), B(1, 1) };
    count[0] = 5;
    sound("halves here and there", by_hand(2, 2, rank_of, 2, (struct compute *[]){ below, above }, count));
}

static void orders_of_sums(void)
{
    struct compute descending[] = { F(0, 0), F(0, 1), B(0, 1), B(0, 0) };
    struct compute loss_descending[] = { F(0, 1), F(0, 0), B(0, 0), B(0, 1) };
    int count[] = { 4 }, rank_of[] = { 0 };
    struct program p = by_hand(1, 1, rank_of, 2, (struct compute *[]){ descending }, count);
    refused("descending backwards", &p,
        "rank 0, operation 3, B chunk 0 microbatch 0: comes after microbatch 1, but a chunk's weight "
        "gradients sum "
        "microbatches in ascending order");
    p = by_hand(1, 1, rank_of, 2, (struct compute *[]){ loss_descending }, count);
    refused("descending losses", &p,
        "rank 0, operation 1, F chunk 0 microbatch 0: comes after microbatch 1, but the loss sums "
        "microbatches in "
        "ascending order");
}

static void transfers(void)
{
    struct program p = sound_program("1f1b", 2, 1, 4);
    struct operation *a = get(&p, 1, OPERATION_RECEIVE, F(1, 0)), *b = get(&p, 1, OPERATION_RECEIVE, F(1, 1)),
                     swap = *a;
    *a = *b;
    *b = swap;
    refused("swapped receives", &p,
        "message 0 of activations 0 -> 1: rank 0 sends the output of F chunk 0 microbatch 0, but rank 1 "
        "receives it "
        "for its F chunk 1 microbatch 1");

    p = sound_program("1f1b", 2, 1, 4);
    take_out(&p, 0, find(&p, 0, OPERATION_RECEIVE, B(0, 0)));
    refused("missing receive", &p,
        "rank 0, operation 5, B chunk 0 microbatch 0: receive buffer 0 of gradients 1 -> 0 is empty: nothing "
        "before "
        "it provides its input");

    p = sound_program("1f1b", 2, 1, 4);
    const int last_send = find(&p, 0, OPERATION_SEND, F(0, 3));
    take_out(&p, 0, last_send);
    refused("missing send", &p,
        "rank 0, at the end: send buffer 1 of activations 0 -> 1 still holds the unsent output of F chunk 0 "
        "microbatch 3");

    p = sound_program("1f1b", 2, 1, 4);
    put_in(&p, 0, last_send, p.rank[0].operations[last_send]);
    refused("doubled send", &p,
        "rank 0, operation 14, send of F chunk 0 microbatch 3: send buffer 1 of activations 0 -> 1 holds "
        "nothing to send");

    p = sound_program("1f1b", 2, 1, 4);
    p.channels[0].messages = 5;
    refused("messages miscounted", &p, "activations 0 -> 1: 5 messages are planned, 4 sent, 4 received");

    p = sound_program("1f1b", 2, 1, 4);
    get(&p, 1, OPERATION_SEND, B(1, 0))->compute = F(1, 0);
    refused("send of what stays", &p,
        "rank 1, operation 5, send of F chunk 1 microbatch 0: this rank has no such message to send");

    p = sound_program("1f1b", 2, 1, 4);
    get(&p, 0, OPERATION_RECEIVE, B(0, 0))->compute = F(0, 0);
    refused("receive of what is not sent", &p,
        "rank 0, operation 0, receive for F chunk 0 microbatch 0: nothing is sent to this rank for that");

    p = sound_program("1f1b", 2, 1, 4);
    get(&p, 1, OPERATION_COMPUTE, F(1, 2))->input.channel = 1;
    refused("input from the wrong channel", &p,
        "rank 1, operation 10, F chunk 1 microbatch 2: its input is on channel 1, but the placement has it "
        "on 0 "
        "(activations 0 -> 1)");
}

static void memory(void)
{
    struct program p = sound_program("1f1b", 2, 1, 4);
    const int use = find(&p, 1, OPERATION_COMPUTE, F(1, 2));
    struct operation moved = take_out(&p, 1, find(&p, 1, OPERATION_RECEIVE, F(1, 2)));
    put_in(&p, 1, use, moved);
    refused("receive behind its compute", &p,
        "rank 1, operation 9, F chunk 1 microbatch 2: receive buffer 0 of activations 0 -> 1 is empty: "
        "nothing before "
        "it provides its input");

    p = sound_program("1f1b", 2, 1, 4);
    moved = take_out(&p, 1, find(&p, 1, OPERATION_RECEIVE, F(1, 2)));
    put_in(&p, 1, find(&p, 1, OPERATION_COMPUTE, F(1, 0)), moved);
    refused("receive before its buffer is free", &p,
        "rank 1, operation 2, receive for F chunk 1 microbatch 2: receive buffer 0 of activations 0 -> 1 is "
        "still to be "
        "read by F chunk 1 microbatch 0");

    p = sound_program("1f1b", 2, 1, 4);
    get(&p, 1, OPERATION_COMPUTE, F(1, 1))->input.buffer = 0;
    refused("input in another buffer", &p,
        "rank 1, operation 6, F chunk 1 microbatch 1: receive buffer 0 of activations 0 -> 1 is not its "
        "input, but that "
        "of F chunk 1 microbatch 2");

    p = sound_program("gpipe", 2, 1, 4);
    moved = take_out(&p, 0, find(&p, 0, OPERATION_SEND, F(0, 0)));
    put_in(&p, 0, find(&p, 0, OPERATION_COMPUTE, F(0, 2)) + 1, moved);
    refused("two computes share a live buffer", &p,
        "rank 0, operation 5, F chunk 0 microbatch 2: send buffer 0 of activations 0 -> 1 still holds the "
        "unsent output "
        "of F chunk 0 microbatch 0");

    p = sound_program("1f1b", 2, 1, 4);
    get(&p, 0, OPERATION_COMPUTE, F(0, 1))->output.buffer = 2;
    refused("buffer that is not", &p,
        "rank 0, operation 4, F chunk 0 microbatch 1: send buffer 2 of activations 0 -> 1 does not exist: "
        "there are 2");

    p = sound_program("interleaved-1f1b", 1, 3, 2);
    const int other = get(&p, 0, OPERATION_COMPUTE, F(0, 0))->output.buffer;
    get(&p, 0, OPERATION_COMPUTE, F(1, 0))->output.buffer = other;
    refused("a local hand-over over its own input", &p,
        "rank 0, operation 1, F chunk 1 microbatch 0: receive buffer 0 of activations 0 -> 0 still holds the "
        "input of "
        "F chunk 1 microbatch 0");

    p = sound_program("1f1b", 2, 1, 4);
    p.rank[0].slots--;
    refused("one slot too few", &p,
        "rank 0, operation 4, F chunk 0 microbatch 1: slot 1 does not exist: the rank has 1");

    p = sound_program("1f1b", 2, 1, 4);
    get(&p, 0, OPERATION_COMPUTE, F(0, 1))->slot = 0;
    refused("slot reused while live", &p,
        "rank 0, operation 4, F chunk 0 microbatch 1: slot 0 holds F chunk 0 microbatch 0 until its B");

    p = sound_program("gpipe", 2, 1, 3);
    get(&p, 0, OPERATION_COMPUTE, B(0, 1))->slot = 0;
    refused(
        "B of a slot that was emptied", &p, "rank 0, operation 10, B chunk 0 microbatch 1: slot 0 is empty");

    p = sound_program("1f1b", 2, 1, 4);
    get(&p, 0, OPERATION_COMPUTE, B(0, 0))->slot = 1;
    refused("B of another slot", &p,
        "rank 0, operation 6, B chunk 0 microbatch 0: slot 1 holds F chunk 0 microbatch 1 until its B");
}

static void channels(void)
{
    struct program p = sound_program("1f1b", 2, 1, 4);
    p.rank_of[1] = 2;
    refused("chunk without a rank", &p, "chunk 1 is placed on rank 2: there are ranks 0 to 1");

    p = sound_program("1f1b", 2, 1, 4);
    p.channel_count = 1;
    refused("missing channel", &p, "no channel takes the output of B chunk 1 from rank 1 to rank 0");

    p = sound_program("1f1b", 2, 1, 4);
    const struct channel_plan first = p.channels[0];
    p.channels[0] = p.channels[1];
    p.channels[1] = first;
    refused("channels out of order", &p,
        "channel 1, activations 0 -> 1: channels must be sorted by from, to, kind, and differ");

    p = sound_program("1f1b", 2, 1, 4);
    p.channels[1].messages = 0;
    refused("idle channel", &p, "channel 1, gradients 1 -> 0: carries no message");

    p = sound_program("1f1b", 2, 1, 4);
    p.channels[1].receive_buffers = 0;
    refused("no receive buffer", &p, "channel 1, gradients 1 -> 0: has no receive buffer");

    p = sound_program("1f1b", 2, 1, 4);
    p.channels[0].local = true;
    refused("a local channel between two ranks", &p,
        "channel 0, activations 0 -> 1: is local, and between two ranks");

    p = sound_program("1f1b", 2, 1, 4);
    p.channels[0].to = 0;
    p.channels[0].local = true;
    refused("send buffers on a local channel", &p,
        "channel 0, activations 0 -> 0: needs a send buffer if it is not local, and none if it is");
}

int main(void)
{
    computes();
    halves();
    orders_of_sums();
    other_orders_are_sound();
    transfers();
    memory();
    channels();
    return check_result();
}
