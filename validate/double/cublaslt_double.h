/* What tests ask the double's cublasLt. */
#pragma once
#include <cublasLt.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* A call of cublasLtMatmul that was accepted. */
struct double_cublaslt_call {
    int algorithm, split_k; /* as the algorithm's attributes say */
    unsigned reduction_scheme;
    size_t workspace; /* that the algorithm needs */
    int sm_count_target;
    cublasComputeType_t compute;
    unsigned epilogue;
    size_t m, n, k, batch;
    int without_algorithm; /* none was given: cublasLt chose for itself */
};

unsigned long double_cublaslt_calls(void); /* accepted so far */
struct double_cublaslt_call double_cublaslt_last(void);
/* Until called with 0, the heuristic begins its list with algorithms that nobody should take: one that splits
   k with a reduction scheme, and one that needs more workspace than is allowed, whatever the preference says.
 */
void double_cublaslt_misbehave(int misbehave);

#if defined(__cplusplus)
}
#endif
