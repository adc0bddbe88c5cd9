/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Where user space finds a member of a struct: it reads the struct as bytes. */
#ifndef PACELINE_LAYOUT_H
#define PACELINE_LAYOUT_H

#define PLACE(type, member, place) _Static_assert(__builtin_offsetof(type, member) == (place), "user space reads it there")

#endif
