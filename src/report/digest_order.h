/* The order of the lines of a digest file, for qsort: by step, then dataflow. */
#pragma once
#include "report/digests.h"

int digest_order(const void *a, const void *b);
