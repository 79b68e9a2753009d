/* What tests ask the double's NCCL. */
#pragma once
#include <nccl.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* The configuration that the communicator was made with. */
ncclConfig_t double_nccl_config(ncclComm_t comm);
/* Communicators of this process that exist, buffers registered with the communicator, transfers that this
   process has completed. */
int double_nccl_communicators(void);
int double_nccl_registered(ncclComm_t comm);
unsigned long double_nccl_transfers(void);
/* A mistake that the real NCCL answers with a hang or with wrong data (a send that meets a receive of another
   size or type, a buffer written while it is being sent) ends the program. Tolerated, it is the
   communicator's asynchronous error instead, and the receive's buffer is left full of NaNs. */
void double_nccl_tolerate(int tolerate);

#if defined(__cplusplus)
}
#endif
