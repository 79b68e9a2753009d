/* Included before the program's C files with -include in a build on the double: each call that makes a stream
   or the host wait says where it stands, so that one can be left out:

   DOUBLE_DROP_WAIT=NAME        waits called from functions of this name do nothing
   DOUBLE_DROP_WAIT=NAME:LINE   only the one of this line
   DOUBLE_LIST_WAITS=FILE       appends NAME:LINE to the file when a wait is first called there

   A program whose tests still pass with a wait left out either has a wait too many or a test too few. */
#pragma once
#include <cuda_runtime_api.h>

#if defined(__cplusplus)
extern "C" {
#endif
cudaError_t double_stream_wait_event(
    cudaStream_t stream, cudaEvent_t event, unsigned flags, const char *function, int line);
cudaError_t double_stream_synchronize(cudaStream_t stream, const char *function, int line);
cudaError_t double_event_synchronize(cudaEvent_t event, const char *function, int line);
#if defined(__cplusplus)
}
#endif

#define cudaStreamWaitEvent(stream, event, flags)                                                            \
    double_stream_wait_event(stream, event, flags, __func__, __LINE__)
#define cudaStreamSynchronize(stream) double_stream_synchronize(stream, __func__, __LINE__)
#define cudaEventSynchronize(event) double_event_synchronize(event, __func__, __LINE__)
