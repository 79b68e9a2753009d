/* What steps leave behind: plain data, made by run/, written by report/. Times are seconds on this host's
 * monotonic clock. */
#pragma once
#include "model/tensor.h"
#include "schedule/schedule.h"

/* One action of compute. waited: how long compute stood still before `start` for its input or its output
 * buffer. */
struct action_record {
    int32_t step;
    int32_t kind; /* enum compute_kind */
    int32_t chunk, microbatch;
    double start, end, waited;
};

/* One message of one channel, seen from this rank. */
struct transfer_record {
    int32_t step;
    int32_t channel; /* index in the program's list of channels */
    int32_t buffer;  /* of that channel, on this side */
    int32_t is_send;
    int32_t chunk, microbatch; /* of the action that made the message */
    double posted, complete;
};

/* One boundary tensor of the recorded step as its receiver found it: the input of a chunk's F, or of its B or
 * I. */
struct arrival {
    int32_t is_gradient; /* of the chunk's output; else the chunk's input */
    int32_t chunk, microbatch;
    struct digest digest; /* of its elements, counted over the batch (tensor_first_index) */
};

/* One step, seen from one rank. busy + idle = seconds. */
struct step_record {
    int32_t step;
    int32_t timed; /* 0: warm-up or the recorded step */
    double start, seconds, busy, idle, exposed;
    float loss; /* on the rank of the last chunk, else NaN */
};

/* One compute of a rank's program, in every step the same, at the times that the plan gives it: the program
 * simulated with the compute times that the run measured and free messages. Seconds from the step's begin. */
struct planned_record {
    int32_t kind; /* enum compute_kind */
    int32_t chunk, microbatch;
    int32_t slot; /* what F fills and B or W empties */
    double start, end;
};

/* What to add to a time of this rank's host to get rank 0's, as measured at one moment (seconds). */
struct clock_record {
    double at, to_rank_0;
};

/* Device bytes of a rank: planned, part by part, and held at the end of the run. */
struct memory_record {
    int64_t weights, operands, gradients, slots, work, buffers, digests, planned, held;
    int64_t slot_bytes;
    int32_t slot_count;
};

/* Where full tensors of the recorded step go. data is host memory, valid during the call. */
struct sink {
    void (*tensor)(void *context, struct tensor tensor, const float *data);
    void *context;
};
