/* What pipeleaf-validate says of itself: --help and its manual page. */
#pragma once
#include "base/page.h"

void validate_help(enum page_form form, struct text *out);
