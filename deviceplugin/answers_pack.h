/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "base/buf.h"
#include "base/cleanup.h"

/* Private to answers.c, allocate.c, podresources_read.c and dra/messages.c: protobuf-c with the buffers of
 * base/. */

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

/* Appends the bytes of a message as the element of a list, the field 1. */
static inline void gt_pack_part(const struct gt_buf *message, struct gt_buf *to)
{
    uint8_t head[11] = {1 << 3 | 2}; /* number and type, then the length, 7 bits a byte */
    size_t used = 1, rest = message->len;
    for (; rest > 0x7f; rest >>= 7)
        head[used++] = (uint8_t)(rest & 0x7f) | 0x80;
    head[used++] = (uint8_t)rest;
    gt_buf_add(to, head, used);
    gt_buf_add(to, message->data ? message->data : "", message->len);
    to->failed |= message->failed;
}

/* protobuf-c's messages use char * even for texts that are only read. */
static inline char *gt_pack_text(const char *text)
{
    union {
        const char *in;
        char *out;
    } same = {text};
    return same.out;
}

static inline void *gt_unpack_alloc(void *left, size_t size)
{
    size_t *capacity = left;
    if (size + 16 > *capacity)
        return NULL;
    *capacity -= size + 16;
    return malloc(size ? size : 1);
}

static inline void gt_unpack_release(void *left, void *data)
{
    (void)left;
    free(data);
}

/* Unpacks a message, to be freed with gt_unpacked_free(). NULL if the bytes are not such a message, or if it
 * would take more than `room` bytes of memory: an empty message takes two bytes on the wire and a hundred in
 * memory. */
static inline void *gt_unpack(const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes, size_t len,
                              size_t capacity)
{
    ProtobufCAllocator allocator = {gt_unpack_alloc, gt_unpack_release, &capacity};
    return protobuf_c_message_unpack(descriptor, &allocator, len, bytes);
}

/* Limits for the kubelet's requests, which usually have one container with a few devices. */
enum { GT_REQUEST_UNPACKED_MAX = 32 << 20, GT_REQUEST_CONTAINERS_MAX = 64 };

static inline void gt_unpacked_free(ProtobufCMessage *message)
{
    protobuf_c_message_free_unpacked(message, NULL);
}
