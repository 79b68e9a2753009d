/* What tests ask of a step: that it allocates nothing, uses no default stream, and that the host does not
   wait for the device before its end. Numbers since the program's start. */
#pragma once

#if defined(__cplusplus)
extern "C" {
#endif
unsigned long double_default_stream_uses(void);
unsigned long double_allocations(void);      /* of device and pinned memory */
unsigned long double_synchronizations(void); /* calls that make the host wait for the device */
#if defined(__cplusplus)
}
#endif
