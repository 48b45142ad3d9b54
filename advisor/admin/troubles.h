/*
 * advisor/admin/troubles.h -- is everything all right, and if not, what is to be typed.
 *
 * Why: who looks at a page at night needs a sentence and a command, not a graph.
 * Ownership: borrows the daemon's parts.
 * Limits:    ADVISOR_TROUBLES_MAX troubles are listed.
 */
#ifndef ADVISOR_ADMIN_TROUBLES_H
#define ADVISOR_ADMIN_TROUBLES_H

#include <stdbool.h>

#include "advisor/admin/advisor_admin.h"

#define ADVISOR_TROUBLES_MAX 32

/** Append "state", "verdict" {ok, text, command} and "troubles" [{text, command}]. */
void advisor_admin_add_troubles(struct advisor_admin *http, struct kvt_buffer *out);

/** Has it told anything of late? */
bool advisor_admin_reports(const struct advisor_gateway_view *gateway);

#endif /* ADVISOR_ADMIN_TROUBLES_H */
