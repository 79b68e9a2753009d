#include "report/result.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

void run_id_make(char id[80])
{
    const time_t now = time(NULL);
    struct tm utc;
    char when[17] = "", host[25] = "";
    if (!gmtime_r(&now, &utc) || !strftime(when, sizeof when, "%Y%m%dT%H%M%SZ", &utc))
        fail("the clock has no date");
    gethostname(host, sizeof host - 1); /* a name cut short will do */
    host[strcspn(host, ".")] = 0;
    for (char *c = host; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '-') *c = '-';
    uint32_t random;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        fail("no random bytes: %s", strerror(errno));
    snprintf(id, 80, "%s-%s-%ld-%08x", when, host, (long)getpid(), (unsigned)random);
}
