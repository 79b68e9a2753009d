/* What the files of the double's NCCL share. nccl.cpp: communicators and groups. nccl_transfer.cpp: what a
   group's sends and receives are on the streams. nccl_mpi.cpp: all that goes between processes. */
#pragma once
#include "nccl_double.h"
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

/* A communicator of one rank, or of two. Tags are chosen by the receiving process, so that a tag names one
   communicator there: `tag` for data, `tag + 1` for connecting. */
struct ncclComm {
    ncclUniqueId id;
    ncclConfig_t config;
    int rank, count, device;
    bool ready = false;   /* made: transfers may use it */
    bool aborted = false; /* nothing more is waited for */
    ncclResult_t error = ncclSuccess;
    int peer = -1, tag = 0, peer_tag = 0;                   /* peer: in MPI_COMM_WORLD */
    bool connected[2] = {}, offered[2] = {}, asked[2] = {}; /* by direction: 0 we receive, 1 we send */
    uint64_t sent = 0, received = 0;                        /* messages so far */
    std::atomic<int> pending{ 0 }; /* groups of transfers enqueued and not yet complete */
    std::vector<void *> registered;
    cudaStream_t internal = nullptr; /* NCCL's own, which keeps the communicator's groups in order */
    cudaEvent_t event = nullptr;
};

/* What precedes the data of a message. */
struct message_head {
    uint64_t number, count;
    int64_t type;
};

struct transfer {
    bool is_send;
    void *buffer;
    size_t count, bytes;
    ncclDataType_t type;
    int peer; /* in the communicator */
    cudaStream_t stream;
    char *message = nullptr; /* head and data as they travel */
    MPI_Request request = MPI_REQUEST_NULL;
    enum { NOT_STARTED, POSTED, COMPLETE } state = NOT_STARTED;
    bool mismatched = false;
};

/* A group's transfers on one communicator: one operation, on all the streams that were named in it. */
struct transfers {
    ncclComm *comm;
    std::vector<transfer> list;
    bool started = false, complete = false;
};

size_t nccl_type_size(ncclDataType_t type);      /* bytes; 0: no such type */
const char *nccl_type_name(ncclDataType_t type); /* "float32" */
/* Records the text for ncclGetLastError, prints it where NCCL_DEBUG is set, and gives the result back. */
ncclResult_t nccl_error(ncclResult_t result, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A mistake that is only seen when transfers run; see double_nccl_tolerate. */
void nccl_mistake(ncclComm *comm, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* --- nccl_transfer.cpp --- */

/* Checks that each transfer to the own rank has its other half. */
ncclResult_t nccl_check_own(const transfers &group);
void nccl_enqueue(std::shared_ptr<transfers> group);
extern std::atomic<unsigned long> nccl_completed;

/* --- nccl_mpi.cpp; nccl_meet and nccl_connect block the host, while the streams go on --- */

void nccl_new_id(ncclUniqueId *id);
bool nccl_is_id(const ncclUniqueId &id);
/* Finds the peers of all these communicators and compares GPUs. */
ncclResult_t nccl_meet(const std::vector<ncclComm *> &comms);
/* Connects each communicator in the directions that it is asked in, and returns when all peers have done so.
 */
void nccl_connect(const std::vector<ncclComm *> &comms);
/* Takes in what others said to all, and forgets what of ours has arrived: nothing of it is left to
 * MPI_Finalize. */
void nccl_settle();
/* Moves started transfers on; true when all are complete. Called by the scheduler. */
bool nccl_progress(transfers &group);
