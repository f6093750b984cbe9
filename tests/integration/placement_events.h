/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The next view of a job is not made, for want of memory. */
void placement_events_lack(void);
