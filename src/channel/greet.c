#include "channel/call.h"
#include "channel/transport.h"
#include <stdlib.h>
#include <string.h>

static void expect_same(
    const struct channels *channels, int channel, const struct greeting *mine, const struct greeting *theirs)
{
    if (mine->kind == theirs->kind && mine->messages == theirs->messages &&
        mine->message_bytes == theirs->message_bytes)
        return;
    fail("channel %d: rank %d sends %llu messages of %llu bytes, rank %d expects %llu of %llu", channel,
        channels->request.plan[channel].from, (unsigned long long)theirs->messages,
        (unsigned long long)theirs->message_bytes, channels->request.job->rank,
        (unsigned long long)mine->messages, (unsigned long long)mine->message_bytes);
}

/* All receives, then all sends, then all waited for. */
void channels_greet(const struct channels *channels, MPI_Comm communicator, unsigned char (*tokens)[128])
{
    const struct channels_request *request = &channels->request;
    const int count = request->count, rank = request->job->rank, bytes = (int)sizeof(struct greeting);
    struct greeting *mine = allocate((size_t)count, sizeof *mine),
                    *theirs = allocate((size_t)count, sizeof *theirs);
    MPI_Request *in = allocate((size_t)count, sizeof *in), *out = allocate((size_t)count, sizeof *out);
    job_lock();
    for (int c = 0; c < count; c++) {
        const struct channel_plan *plan = &request->plan[c];
        mine[c] = (struct greeting){ plan->kind, (uint64_t)plan->messages, request->message_bytes, { 0 } };
        if (tokens) memcpy(mine[c].token, tokens[c], sizeof mine[c].token);
        theirs[c] = mine[c];
        in[c] = out[c] = MPI_REQUEST_NULL;
        if (plan->to == rank && !plan->local)
            MPI_CALL(MPI_Irecv(&theirs[c], bytes, MPI_BYTE, plan->from, c, communicator, &in[c]));
    }
    for (int c = 0; c < count; c++) {
        const struct channel_plan *plan = &request->plan[c];
        if (plan->from == rank && !plan->local)
            MPI_CALL(MPI_Isend(&mine[c], bytes, MPI_BYTE, plan->to, c, communicator, &out[c]));
    }
    job_unlock();
    for (int c = 0; c < count; c++) {
        job_complete(&in[c]);
        job_complete(&out[c]);
        expect_same(channels, c, &mine[c], &theirs[c]);
        if (tokens) memcpy(tokens[c], theirs[c].token, sizeof theirs[c].token);
    }
    free(mine);
    free(theirs);
    free(in);
    free(out);
}
