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

/* As lldpcli 1.0.16 prints them with -f json0, without what is not read. */
#define SAVED_CHASSIS(name)                                                                                  \
    "\"chassis\": [{\"id\": [{\"type\": \"mac\", \"value\": \"26:2c:ed:ce:e2:27\"}], " name                  \
    "\"descr\": [{\"value\": \"Linux\"}], \"capability\": [{\"type\": \"Bridge\", \"enabled\": true}]}]"
#define SAVED_PORT(port)                                                                                     \
    "\"port\": [{\"id\": [{\"type\": \"ifname\", \"value\": \"" port                                         \
    "\"}], \"descr\": [{\"value\": \"to a node\"}], \"ttl\": [{\"value\": \"120\"}]}]"
#define SAVED(of) "{\"lldp\": [{\"interface\": [" of "]}]}"
#define SAVED_ONE(net, chassis, port)                                                                        \
    "{\"name\": \"" net "\", \"via\": \"LLDP\", \"rid\": \"1\", \"age\": \"0 day, 00:00:16\", " chassis      \
    ", " port "}"

static void fill_from(const char *text, struct gt_facts *facts)
{
    char root[] = "/tmp/gputopo-lldp-XXXXXX", path[256];
    assert_non_null(mkdtemp(root));
    make(root, "run");
    make(root, "run/gputopo");
    snprintf(path, sizeof(path), "%s/run/gputopo/lldp.json", root);
    if (text)
        assert_int_equal(gt_file_write(path, text, strlen(text), 0644, NULL), 0);
    gt_auto_close int fd = open(root, O_RDONLY | O_DIRECTORY);
    gt_lldp_fill_saved(fd, facts);
    unlink(path);
    snprintf(path, sizeof(path), "%s/run/gputopo", root);
    assert_int_equal(rmdir(path), 0);
    snprintf(path, sizeof(path), "%s/run", root);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(root), 0);
}

static void add_device(struct gt_facts *facts, const char *bdf, const char *net)
{
    struct gt_fact *fact;
    assert_int_equal(gt_facts_add(facts, bdf, &fact, NULL), 0);
    snprintf(fact->net, sizeof(fact->net), "%s", net);
}

static void test_what_lldpd_says(void **state)
{
    (void)state;
    static const char text[] =
        SAVED(SAVED_ONE("eth0", SAVED_CHASSIS("\"name\": [{\"value\": \"leaf-1\"}], "), SAVED_PORT("swp7")) ", " SAVED_ONE(
            "eth0", SAVED_CHASSIS("\"name\": [{\"value\": \"a-phone\"}], "),
            SAVED_PORT(
                "1")) ", " SAVED_ONE("eth1", SAVED_CHASSIS(""),
                                     "\"port\": []") ", " SAVED_ONE("eth2",
                                                                    SAVED_CHASSIS("\"name\": [{\"value\": "
                                                                                  "\"leaf-2\"}], "),
                                                                    SAVED_PORT(
                                                                        "swp8")) ", " SAVED_ONE("eth9",
                                                                                                "\"chassis\":"
                                                                                                " []",
                                                                                                SAVED_PORT(
                                                                                                    "swp9")) ", 3, {}");
    gt_auto_facts struct gt_facts facts = {0};
    add_device(&facts, "0000:01:00.0", "eth0");
    add_device(&facts, "0000:02:00.0", "eth1");
    add_device(&facts, "0000:03:00.0", "eth2"); /* networkd knows it */
    add_device(&facts, "0000:04:00.0", "eth9");
    add_device(&facts, "0000:05:00.0", "");
    add_device(&facts, "0000:06:00.0", "eth0"); /* of SR-IOV */
    facts.devices[5].virtual_function = true;
    snprintf(facts.devices[2].peer, GT_PEER_SIZE, "leaf-3");
    fill_from(NULL, &facts);
    assert_string_equal(facts.devices[0].peer, "");
    fill_from(text, &facts);
    assert_int_equal(facts.missing_count, 0);
    assert_string_equal(facts.devices[0].peer, "leaf-1");
    assert_string_equal(facts.devices[0].peer_port, "swp7");
    assert_string_equal(facts.devices[1].peer, "26:2c:ed:ce:e2:27");
    assert_string_equal(facts.devices[1].peer_port, "");
    assert_string_equal(facts.devices[2].peer, "leaf-3");
    assert_string_equal(facts.devices[3].peer, "");
    assert_string_equal(facts.devices[4].peer, "");
    assert_string_equal(facts.devices[5].peer, "");
}

static void test_what_lldpd_never_says(void **state)
{
    static const struct {
        const char *text, *why;
    } of[] = {
        {"{\"lldp\": [{}]}", NULL}, /* it has no neighbour */
        {"{\"lldp\": [{\"interface\": [", "run/gputopo/lldp.json: line 1"},
        {"", "run/gputopo/lldp.json: "},
        {"{}", "run/gputopo/lldp.json: lldp: is not there, print it by lldpcli -f json0 show neighbors"},
        {"{\"lldp\": {\"interface\": {}}}", "run/gputopo/lldp.json: lldp: expected"}, /* -f json */
        {"{\"lldp\": [{\"interface\": 7}]}", "run/gputopo/lldp.json: lldp[0].interface: expected"},
    };
    (void)state;
    for (size_t i = 0; i < GT_COUNT(of); i++) {
        gt_auto_facts struct gt_facts facts = {0};
        add_device(&facts, "0000:01:00.0", "eth0");
        fill_from(of[i].text, &facts);
        assert_string_equal(facts.devices[0].peer, "");
        assert_int_equal(facts.missing_count, of[i].why ? 1 : 0);
        if (of[i].why && strncmp(facts.missing[0].why, of[i].why, strlen(of[i].why)) != 0)
            fail_msg("%s: %s", of[i].text, facts.missing[0].why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_frames),
                                       cmocka_unit_test(test_a_frame_without_names),
                                       cmocka_unit_test(test_a_root), cmocka_unit_test(test_what_lldpd_says),
                                       cmocka_unit_test(test_what_lldpd_never_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
