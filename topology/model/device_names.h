/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_MODEL_DEVICE_NAMES_H
#define GPUTOPO_MODEL_DEVICE_NAMES_H

/* Names below /dev of the device nodes that a container with a GPU gets; the last two are formats of
 * printf(). */
#define GT_CONTROL_NODE "mxcd"
#define GT_CARD_NODE    "dri/card%d"
#define GT_RENDER_NODE  "dri/renderD%d"
enum { GT_DEVICE_NAME_SIZE = 24 };

#endif
