/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DEVICEPLUGIN_ANSWERS_PACK_H
#define GPUTOPO_DEVICEPLUGIN_ANSWERS_PACK_H

#include <protobuf-c/protobuf-c.h>

#include "base/buf.h"
#include "base/cleanup.h"

/* Private to answers*.c: protobuf-c and the house's buffers. */

struct gt_pack_buffer {
    ProtobufCBuffer base;
    struct gt_buf *to;
};

static inline void gt_pack_append(ProtobufCBuffer *base, size_t len, const uint8_t *data)
{
    gt_buf_add(((struct gt_pack_buffer *)base)->to, data, len);
}

static inline void gt_pack(const ProtobufCMessage *message, struct gt_buf *to)
{
    struct gt_pack_buffer buffer = {{gt_pack_append}, to};
    protobuf_c_message_pack_to_buffer(message, &buffer.base);
}

static inline void gt_unpacked_free(ProtobufCMessage *message)
{
    protobuf_c_message_free_unpacked(message, NULL);
}

#endif
