/* What `pipeleaf recheck` found: one entry a tensor, as plain data that ranks can send; and the words and the
   JSON that are made of them. */
#pragma once
#include "report/recorded.h"
#include "report/verify.h"

enum fault {
    FAULT_ARRIVED,  /* what arrived at the chunk is not what was sent */
    FAULT_COMPUTED, /* what the run recorded is not what comes out of its inputs */
    FAULT_STORED,   /* what lies in the file is not what the run's digest says */
    FAULT_NAN,
    FAULT_MISSING,
    FAULTS
};
enum missing_from { MISSING_DATA, MISSING_DIGEST, MISSING_ARRIVAL };

struct finding {
    int32_t fault;
    struct tensor tensor;      /* layer = the model's layers: the gradient of the last layer's output */
    int32_t chunk, microbatch; /* microbatch -1: the tensor is of all of them */
    int32_t rank, checker;     /* which rank computed it, or received it; and which computed it again */
    int32_t sender;            /* FAULT_ARRIVED: the rank that sent it */
    int32_t missing;           /* FAULT_MISSING: enum missing_from */
    bool follows;              /* another difference in its chunk may be the cause */
    bool in_full;              /* elements were compared, and what follows is of the first that differs */
    uint64_t elements, differing, first;
    float value[2]; /* as recorded, as computed again */
    struct digest
        digest[2]; /* recorded (or arrived, or of the data), computed again (or sent, or the run's) */
};

/* Tensors that were compared. Sums over ranks. */
struct recheck_tally {
    uint64_t compared[TENSOR_CLASSES], in_full[TENSOR_CLASSES];
    uint64_t arrivals;
};

/* What is to be compared, and by whom. */
struct recheck_subject {
    const struct recorded *run;
    int chunks;
    const int *first;             /* [chunks + 1] layers of each chunk */
    const int *rank_of;           /* [chunks] of the run */
    const int *checker_of;        /* [chunks] */
    int checkers;                 /* ranks that computed again */
    const struct computed_by *by; /* [checkers] */
    int own;                      /* chunks that could only be computed again where they were computed */
};

/* Sorts the findings by dataflow, the causes before what may follow from them. Appends the explanation: what
   was compared; on a fault the first, with chunk, layer, microbatch, rank and host, and where the others are.
 */
enum verdict findings_judge(const struct recheck_subject *subject, const struct recheck_tally *tally,
    struct finding *finding, size_t count, struct text *out);

/* recheck.json, of the same findings after findings_judge. */
struct recheck_result {
    const char *directory, *recheck_id;
    const struct recorded *run;            /* NULL: it could not be read */
    const struct recheck_subject *subject; /* NULL: nothing was compared */
    const struct recheck_tally *tally;
    const struct finding *finding;
    size_t count;
    const double *seconds; /* [checkers] */
    const char *explanation;
    enum verdict verdict;
    int exit_code;
};
void recheck_result_write(const char *path, const struct recheck_result *result);

extern const char *const fault_name[FAULTS]; /* "arrived", "computed", "stored", "nan", "missing" */
