/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "topology/discovery/backends.h"

static void add_tlv(struct gt_buf *to, unsigned type, const char *value, size_t len)
{
    const unsigned char head[] = {(unsigned char)(type << 1 | len >> 8), (unsigned char)len};
    gt_buf_add(to, head, sizeof(head));
    gt_buf_add(to, value, len);
}

#define TLV(to, type, text) add_tlv((to), (type), (text), sizeof(text) - 1)

/* One neighbour, as networkd keeps it. */
static void add_frame(struct gt_buf *to, const char *name, const char *ttl)
{
    gt_auto_buf struct gt_buf frame = GT_BUF(4096);
    gt_buf_add(&frame, "\x01\x80\xc2\x00\x00\x0e\x02\x00\x00\x00\x00\x01\x88\xcc", 14);
    TLV(&frame, 1, "\x04\xaa\xbb\xcc\x00\x01\x02");
    TLV(&frame, 2,
        "\x05"
        "Ethernet1/7");
    add_tlv(&frame, 3, ttl, 2);
    if (name)
        add_tlv(&frame, 5, name, strlen(name));
    TLV(&frame, 0, "");
    uint64_t size = htole64(frame.len);
    gt_buf_add(to, &size, sizeof(size));
    gt_buf_add(to, frame.data, frame.len);
}

static void test_frames(void **state)
{
    char peer[GT_PEER_SIZE] = "before", port[GT_PEER_SIZE] = "before";
    gt_auto_buf struct gt_buf named = GT_BUF(1 << 16), nameless = GT_BUF(1 << 16);
    (void)state;
    assert_false(gt_lldp_neighbour("", 0, peer, port));
    add_frame(&named, "gone", "\0\0"); /* says that it leaves */
    add_frame(&named, "leaf-1", "\0\x78");
    for (size_t len = 0; len < named.len; len++)
        assert_false(gt_lldp_neighbour(named.data, len, peer, port));
    assert_string_equal(peer, "before");
    assert_true(gt_lldp_neighbour(named.data, named.len, peer, port));
    assert_string_equal(peer, "leaf-1");
    assert_string_equal(port, "Ethernet1/7");
    add_frame(&nameless, NULL, "\0\x78");
    assert_true(gt_lldp_neighbour(nameless.data, nameless.len, peer, port));
    assert_string_equal(peer, "aa:bb:cc:00:01:02");
    gt_auto_buf struct gt_buf odd = GT_BUF(1 << 16);
    add_frame(&odd, "a\nb", "\0\x78"); /* no name that could be shown: its address instead */
    assert_true(gt_lldp_neighbour(odd.data, odd.len, peer, port));
    assert_string_equal(peer, "aa:bb:cc:00:01:02");
}

/* Only a time to live: neither chassis nor name. */
static void test_a_frame_without_names(void **state)
{
    static const char frame[] =
        "\x14\0\0\0\0\0\0\0\x01\x80\xc2\0\0\x0e\x02\0\0\0\0\x01\x88\xcc\x06\x02\0\x78\0\0";
    char peer[GT_PEER_SIZE] = "before", port[GT_PEER_SIZE] = "before";
    (void)state;
    assert_false(gt_lldp_neighbour(frame, sizeof(frame) - 1, peer, port));
    assert_string_equal(peer, "before");
}

static void make(const char *root, const char *path)
{
    char whole[256];
    snprintf(whole, sizeof(whole), "%s/%s", root, path);
    assert_int_equal(mkdir(whole, 0755), 0);
}

static void test_a_root(void **state)
{
    (void)state;
    char root[] = "/tmp/gputopo-lldp-XXXXXX", path[256];
    struct gt_fact fact = {.net = "eth7"};
    gt_auto_buf struct gt_buf frames = GT_BUF(1 << 16);
    assert_non_null(mkdtemp(root));
    static const char *const directories[] = {"net",         "net/eth7",          "run",
                                              "run/systemd", "run/systemd/netif", "run/systemd/netif/lldp"};
    for (unsigned i = 0; i < GT_COUNT(directories); i++)
        make(root, directories[i]);
    gt_auto_close int fd = open(root, O_RDONLY | O_DIRECTORY);
    snprintf(path, sizeof(path), "%s/net/eth7/ifindex", root);
    assert_int_equal(gt_file_write(path, "12\n", 3, 0644, NULL), 0);
    gt_lldp_fill(fd, fd, &fact);
    assert_string_equal(fact.peer, "");
    add_frame(&frames, "leaf-1", "\0\x78");
    snprintf(path, sizeof(path), "%s/run/systemd/netif/lldp/12", root);
    assert_int_equal(gt_file_write(path, frames.data, frames.len, 0644, NULL), 0);
    gt_lldp_fill(fd, fd, &fact);
    assert_string_equal(fact.peer, "leaf-1");
    assert_string_equal(fact.peer_port, "Ethernet1/7");
    unlink(path);
    snprintf(path, sizeof(path), "%s/net/eth7/ifindex", root);
    unlink(path);
    for (unsigned i = GT_COUNT(directories); i--;) {
        snprintf(path, sizeof(path), "%s/%s", root, directories[i]);
        assert_int_equal(rmdir(path), 0);
    }
    assert_int_equal(rmdir(root), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_frames),
                                       cmocka_unit_test(test_a_frame_without_names),
                                       cmocka_unit_test(test_a_root)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
