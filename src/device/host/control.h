/* The floating-point control register of a thread: results have the contract's bits only where denormals are
   kept and rounding is to nearest. A library linked with -Ofast may change that when it is loaded. */
#pragma once

/* What is wrong with the calling thread's register ("flushes denormal results to zero"), or NULL. */
const char *control_problem(void);

/* Fails the job where any of the OpenMP threads that compute has such a problem. */
void control_check(int threads);
