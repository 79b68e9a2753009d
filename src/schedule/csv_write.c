/* A program as PyTorch's pipelining CSV, in the current dialect. Computes alone are what PyTorch is to be
   given: it adds its own sends and receives. Those of this program stand in its own order, in which a receive
   is posted as soon as it has a buffer; that needs a FIFO for each channel, and hangs where, as in PyTorch,
   all messages of a rank share one. */
#include "csv.h"
#include "schedule/program.h"

/* What a cell says of an operation. A RECEIVE holds the compute that uses its message, a SEND the one that
   made it: each is the stage that acts. The gradient that I makes is sent as that of B. */
static enum csv_code code_of(const struct operation *operation)
{
    const bool forward = operation->compute.kind == COMPUTE_F;
    switch (operation->kind) {
    case OPERATION_RECEIVE: return forward ? CSV_RECV_F : CSV_RECV_B;
    case OPERATION_SEND: return forward ? CSV_SEND_F : CSV_SEND_B;
    case OPERATION_COMPUTE: break;
    }
    return (enum csv_code)operation->compute.kind;
}

void program_write_csv(const struct program *program, bool communication, struct text *out)
{
    for (int rank = 0; rank < program->ranks; rank++) {
        const char *comma = "";
        for (int i = 0; i < program->rank[rank].count; i++) {
            const struct operation *operation = &program->rank[rank].operations[i];
            if (!communication && operation->kind != OPERATION_COMPUTE) continue;
            text_add(out, "%s", comma);
            csv_add(out, code_of(operation), operation->compute.chunk, operation->compute.microbatch,
                CSV_CURRENT);
            comma = ",";
        }
        text_add(out, "\n");
    }
}
