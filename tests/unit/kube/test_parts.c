/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/json_write.h"
#include "kube/buckets.h"
#include "kube/event.h"
#include "kube/index.h"
#include "kube/list.h"
#include "kube/status.h"

static void test_paths(void **state)
{
    (void)state;
    static const struct gt_kube_resource topologies = {"topology.metax-tech.com", "v1alpha1",
                                                       "nodegputopologies", false};
    static const struct gt_kube_resource group = {.group = "kueue.x-k8s.io"};
    static const struct {
        const struct gt_kube_resource *resource;
        const char *namespace_, *name, *subresource, *path; /* path NULL: refused */
    } cases[] = {
        {&gt_kube_nodes, NULL, "n1", NULL, "/api/v1/nodes/n1"},
        {&group, NULL, NULL, NULL, "/apis/kueue.x-k8s.io"},
        {&gt_kube_pods, NULL, NULL, NULL, "/api/v1/pods"},
        {&gt_kube_leases, "ns", "l", NULL, "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l"},
        {&topologies, NULL, "n1", "status",
         "/apis/topology.metax-tech.com/v1alpha1/nodegputopologies/n1/status"},
        {&gt_kube_pods, "ns", "a b:c\xc3\xa4", NULL, "/api/v1/namespaces/ns/pods/a%20b%3Ac%C3%A4"},
        {&gt_kube_nodes, "ns", "n1", NULL, NULL},
        {&gt_kube_pods, NULL, "p", NULL, NULL},
        {&gt_kube_pods, "ns", "../x", NULL, NULL},
        {&gt_kube_pods, "..", "x", NULL, NULL},
        {&gt_kube_pods, "ns", ".", NULL, NULL},
        {&gt_kube_pods, "", "x", NULL, NULL},
        {&gt_kube_pods, "ns", "a%2fb", NULL, NULL},
    };
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        gt_auto_buf struct gt_buf path = GT_BUF(4096);
        int r = gt_kube_path(&path, cases[i].resource, cases[i].namespace_, cases[i].name,
                             cases[i].subresource, NULL);
        assert_int_equal(r, cases[i].path ? 0 : -EINVAL);
        if (cases[i].path)
            assert_string_equal(path.data, cases[i].path);
    }
    char *path = NULL;
    const struct gt_kube_selection selection = {
        .resource = &gt_kube_pods, .label_selector = "a in (b,c)", .field_selector = "spec.nodeName=n&1"};
    assert_int_equal(gt_kube_selection_path(&selection, &path, NULL), 0);
    assert_string_equal(
        path, "/api/v1/pods?labelSelector=a%20in%20%28b%2Cc%29&fieldSelector=spec.nodeName%3Dn%261");
    free(path);
}

static void test_backoff(void **state)
{
    (void)state;
    struct gt_jitter jitter;
    gt_jitter_seed(&jitter);
    print_message("seed %llu\n", (unsigned long long)jitter.state);
    for (unsigned round = 0; round < 200; round++) {
        struct gt_backoff backoff = {0};
        uint64_t step = GT_BACKOFF_FIRST_MS;
        for (unsigned i = 0; i < 20; i++) {
            uint64_t wait = gt_backoff_next(&backoff, 0, &jitter);
            assert_in_range(wait, step / 2, step);
            step = step * 2 < GT_BACKOFF_MAX_MS ? step * 2 : GT_BACKOFF_MAX_MS;
        }
    }
    struct gt_backoff backoff = {0};
    assert_in_range(gt_backoff_next(&backoff, 7, &jitter), 7000, 10500);
    assert_in_range(gt_backoff_next(&backoff, 4000000000U, &jitter), 120000, 180000);
}

static void test_status(void **state)
{
    (void)state;
    static const struct {
        unsigned code;
        const char *json;
        int error;
        const char *text;
    } cases[] = {
        {403, "{\"reason\":\"Forbidden\",\"message\":\"no\\nway\"}", EACCES, "403 Forbidden: no way"},
        {409, "{\"reason\":\"AlreadyExists\"}", EEXIST, "409 AlreadyExists"},
        {409, "{\"reason\":\"Conflict\"}", EBUSY, "409 Conflict"},
        {404, "null", ENOENT, "404"},
        {401, "[]", EPERM, "401"},
        {410, "{\"message\":5}", ESTALE, "410"},
        {429, "", EAGAIN, "429"},
        {422, "{\"message\":\"bad\"}", EINVAL, "422: bad"},
        {500, "{}", EIO, "500"},
        {307, "{}", EIO, "307"},
    };
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        cJSON *status = cJSON_Parse(cases[i].json);
        gt_auto_err struct gt_err *error = NULL;
        assert_int_equal(gt_kube_fail(&error, cases[i].code, status), -cases[i].error);
        assert_string_equal(gt_err_text(error), cases[i].text);
        cJSON_Delete(status);
    }
    assert_true(gt_kube_is_passing(429) && gt_kube_is_passing(503));
    assert_false(gt_kube_is_passing(409) || gt_kube_is_passing(501) || gt_kube_is_passing(200));
}

/* The reference's own vectors: the key 00 01 02..., the text 00 01 02... */
static void test_siphash(void **state)
{
    static const struct {
        size_t len;
        uint64_t digest;
    } cases[] = {{0, 0x726fdb47dd0e0e31U}, {1, 0x74f839c593dc67fdU}, {15, 0xa129ca6149be45e5U}};
    const uint64_t key[2] = {0x0706050403020100U, 0x0f0e0d0c0b0a0908U};
    unsigned char text[16];
    (void)state;
    for (unsigned i = 0; i < sizeof(text); i++)
        text[i] = (unsigned char)i;
    for (size_t i = 0; i < GT_COUNT(cases); i++)
        assert_true(gt_siphash(key, text, cases[i].len) == cases[i].digest);
}

static uint64_t digest_of_another_process(void)
{
    int ends[2];
    uint64_t digest = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        digest = gt_digest_keyed("a name");
        _exit(write(ends[1], &digest, sizeof(digest)) != sizeof(digest));
    }
    assert_int_equal(read(ends[0], &digest, sizeof(digest)), sizeof(digest));
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ends[0]);
    close(ends[1]);
    return digest;
}

/* Comes first: a child has the key of its parent, once that has one. */
static void test_digests_of_two_processes(void **state)
{
    (void)state;
    assert_true(digest_of_another_process() != digest_of_another_process());
    assert_true(gt_digest_keyed("a name") == gt_digest_keyed("a name"));
    assert_true(gt_digest_keyed("a name") != gt_digest_keyed("b name"));
}

static void test_buckets(void **state)
{
    struct gt_bucket places[2] = {0};
    struct gt_buckets buckets = {places, 2};
    const struct gt_bucket_rate three = {3, 1000}, one = {1, 10000};
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        assert_true(gt_bucket_has(&buckets, 7, three, 5000));
        gt_bucket_take(&buckets, 7, three, 5000);
    }
    assert_false(gt_bucket_has(&buckets, 7, three, 5999));
    assert_true(gt_bucket_has(&buckets, 7, three, 6000)); /* one more after each refill */
    gt_bucket_take(&buckets, 7, three, 6000);
    assert_false(gt_bucket_has(&buckets, 7, three, 6999));
    assert_true(gt_bucket_has(&buckets, 8, one, 6000)); /* another kind has its own */
    gt_bucket_take(&buckets, 8, one, 6000);
    gt_bucket_take(&buckets, 9, one, 7000); /* no place: the least used one, 7, is dropped */
    assert_true(gt_bucket_has(&buckets, 7, three, 7000));
    assert_false(gt_bucket_has(&buckets, 8, one, 15999));
    assert_true(gt_bucket_has(&buckets, 8, one, 16000));
}

static void test_index(void **state)
{
    (void)state;
    enum { OBJECTS = 5000 };
    struct gt_index index = {.max = OBJECTS};
    char name[32];
    assert_null(gt_index_find(&index, "ns", "x"));
    assert_null(gt_index_take(&index, "ns", "x"));
    for (unsigned i = 0; i < OBJECTS; i++) {
        snprintf(name, sizeof(name), "object-%u", i / 2);
        struct gt_index_entry *entry = gt_index_add(&index, i % 2 ? "a" : "", name);
        assert_non_null(entry);
        entry->mark = i % 5 ? 1 : 2;
        entry->uid = i;
    }
    assert_null(gt_index_add(&index, "b", "one-too-many"));
    for (unsigned i = 0; i < OBJECTS; i++) {
        snprintf(name, sizeof(name), "object-%u", i / 2);
        const struct gt_index_entry *entry = gt_index_find(&index, i % 2 ? "a" : "", name);
        assert_non_null(entry);
        assert_int_equal(entry->uid, i);
        assert_string_equal(gt_index_name(entry), name);
    }
    size_t slot = 0;
    unsigned taken = 0;
    struct gt_index_entry *entry;
    while ((entry = gt_index_take_unmarked(&index, 1, &slot))) {
        assert_int_equal(entry->mark, 2);
        free(entry);
        taken++;
    }
    assert_int_equal(taken, OBJECTS / 5);
    assert_int_equal(index.table.count, OBJECTS - OBJECTS / 5);
    assert_null(gt_index_find(&index, "", "object-0"));
    entry = gt_index_take(&index, "a", "object-0");
    assert_non_null(entry);
    free(entry);
    gt_index_done(&index);
    assert_int_equal(index.table.count, 0);
}

/* What the recorder keeps, by number; the caller frees it. */
static char *kept_since(const struct gt_kube_recorder *recorder, uint64_t after, uint64_t *ret_last)
{
    struct gt_buf to = GT_BUF(1 << 20);
    gt_json_begin(&to, NULL, '[');
    *ret_last = gt_kube_recorder_kept(recorder, after, NULL, &to);
    gt_json_end(&to, ']');
    assert_false(to.failed);
    return gt_buf_take(&to);
}

/* Many decisions do not push out what was said of Nodes, and all is told in its order. */
static void test_events_of_nodes_are_kept(void **state)
{
    (void)state;
    gt_auto_loop struct gt_loop *loop = NULL;
    GT_CLEANUP(gt_kube_free) struct gt_kube *kube = NULL;
    GT_CLEANUP(gt_kube_recorder_free) struct gt_kube_recorder *recorder = NULL;
    char nowhere[] = "https://127.0.0.1:1", token[] = "none";
    const struct gt_kube_config config = {.server = nowhere, .token = token};
    assert_int_equal(gt_loop_new(&loop, NULL), 0);
    assert_int_equal(gt_kube_new(loop, &config, "test", &kube, NULL), 0);
    assert_int_equal(gt_kube_recorder_new(kube, "test", "test", 60, &recorder, NULL), 0);
    for (unsigned i = 0; i < 1000; i++) {
        const struct gt_event_object event = {.kind = i % 100 ? "Job" : "Node",
                                              .name = "x",
                                              .namespace_ = i % 100 ? "ns" : NULL,
                                              .reason = i % 100 ? "Planned" : "NodeReady",
                                              .note = ""};
        gt_kube_recorder_note(recorder, &event);
    }
    uint64_t last, before = 0;
    unsigned nodes = 0, jobs = 0;
    gt_auto_free char *all = kept_since(recorder, 0, &last);
    for (const char *at = all; (at = strstr(at, "\"number\":")); at++) {
        uint64_t number = strtoull(at + strlen("\"number\":"), NULL, 10);
        assert_true(number > before);
        before = number;
        *((number - 1) % 100 ? &jobs : &nodes) += 1;
    }
    assert_int_equal(last, 1000);
    assert_int_equal(nodes, 10);
    assert_int_equal(jobs, GT_EVENTS_KEPT);
    gt_auto_free char *rest = kept_since(recorder, 999, &last);
    assert_null(strstr(rest, "\"number\":999"));
    assert_non_null(strstr(rest, "\"number\":1000"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digests_of_two_processes),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_backoff),
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_siphash),
        cmocka_unit_test(test_buckets),
        cmocka_unit_test(test_index),
        cmocka_unit_test(test_events_of_nodes_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
