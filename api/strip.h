/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

/* Objects as they are shown to others. */

/* Takes out what is large, or may be secret, and says nothing of GPUs: managed fields, images of Nodes,
 * volumes, environment, command and last words of containers, annotations of other programs, headers of a
 * kubelet's settings. `anonymous`: also what users write freely, such as labels that are not ours, and what
 * tells a machine or a person: serial numbers, IDs of machines, who has isolated a GPU. `ours`: a pod of
 * ours, whose containers keep their arguments unless `anonymous`. */
void gt_strip(cJSON *object, bool anonymous, bool ours);

/* The first container of a pod. */
struct gt_program {
    const char *container; /* its name, within the object */
    uint16_t http;         /* its port of that name; 0: none */
};
bool gt_program_of_pod(const cJSON *object, struct gt_program *ret);
