/* The part of the check that runs the program and explains a stall. */
#pragma once
#include "execute.h"

/* True where the program ends with the rank's host blocked in each compute until it is done (sends in the
   background), and with it blocked in each send too. Else *error gets the shortest cycle of waiting ranks,
   one line each. The program must be sound but for deadlocks: see check.c.

   That also proves it with the host blocked at any other calls. A host that enqueues on streams may be held
   up anywhere, until what it enqueued last is under way; but a wait less can only let more operations run,
   since an operation that can run still can when others have. So the host that is blocked in all computes and
   sends is the worst one. A receive needs no wait: its buffer is free where it stands in the program. (A
   launch queue must hold a channel's posted receives, one a buffer.) */
bool deadlock_check(const struct program *program, struct text *error);
