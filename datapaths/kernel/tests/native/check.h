/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* For programs that end with 0 when all holds, and say what does not. */
#ifndef PACELINE_CHECK_H
#define PACELINE_CHECK_H

#include <stdio.h>

static int failures;

#define CHECK(what)                                                             \
	do {                                                                    \
		if (!(what)) {                                                  \
			printf("line %d: %s does not hold\n", __LINE__, #what); \
			failures++;                                             \
		}                                                               \
	} while (0)

#endif
