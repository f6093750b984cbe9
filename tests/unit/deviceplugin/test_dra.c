/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/dra/claim_cdi.h"
#include "deviceplugin/dra/claims.h"
#include "deviceplugin/dra/disk.h"
#include "deviceplugin/dra/server.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
/* cmocka needs those above */
#include <cmocka.h>

#include "base/file.h"
#include "deviceplugin/answers_pack.h"
#include "proto/dra.pb-c.h"
#include "tests/unit/deviceplugin/machine.h"

static const char pool[] = "node1", kind[] = "metax-tech.com/gpu";

/* A claim of the GPUs at 0000:10:00.0 and so on that are set in `gpus`. */
static struct gt_dra_claim make_claim(const char *name, unsigned gpus)
{
    struct gt_dra_claim claim = {.id = {.namespace = "ns"}, .pod_count = 1};
    snprintf(claim.id.name, sizeof(claim.id.name), "%s", name);
    snprintf(claim.id.uid, sizeof(claim.id.uid), "uid-%s", name);
    snprintf(claim.pods[0], sizeof(claim.pods[0]), "pod-%s", name);
    for (unsigned i = 0; i < 8; i++)
        if (gpus >> i & 1) {
            struct gt_dra_claimed_device *device = &claim.devices[claim.device_count++];
            snprintf(device->request, sizeof(device->request), "gpus");
            snprintf(device->device, sizeof(device->device), "gpu-0000-1%u-00-0", i);
        }
    return claim;
}

static void names_are_places(void **state)
{
    static const char *const wrong[] = {"",
                                        "gpu-",
                                        "gpu-0",
                                        "gpu-0000-10-00-8",
                                        "0000-10-00-0",
                                        "gpu--",
                                        "gpu-0000:10:00.0",
                                        "gpu-00-0000-00-0",
                                        "gpu-0000-1-000-0",
                                        "gpu-0000-AA-00-0",
                                        "gpu-0000-10-00-0-"};
    char name[GT_DRA_DEVICE_SIZE], bdf[GT_BDF_SIZE];
    (void)state;
    assert_true(gt_dra_device_name("0000:3b:00.0", name));
    assert_string_equal(name, "gpu-0000-3b-00-0");
    assert_true(gt_dra_device_bdf(name, bdf));
    assert_string_equal(bdf, "0000:3b:00.0");
    assert_true(gt_dra_device_name("10000:3b:1f.7", name));
    assert_string_equal(name, "gpu-10000-3b-1f-7");
    assert_true(gt_dra_device_bdf(name, bdf));
    assert_string_equal(bdf, "10000:3b:1f.7");
    for (unsigned i = 0; i < GT_COUNT(wrong); i++)
        assert_false(gt_dra_device_bdf(wrong[i], bdf));
}

static int make(const struct gt_dra_result *results, unsigned count, struct gt_dra_claim *ret, char *why)
{
    static const char *const pods[] = {"a", "b"};
    const struct gt_dra_claim_id id = {"ns", "claim", "uid-1"};
    const struct gt_dra_allocation allocation = {"uid-1", results, count, pods, 2};
    gt_auto_err struct gt_err *err = NULL;
    int r = gt_dra_claim_make(&id, &allocation, ret, &err);
    snprintf(why, 200, "%s", gt_err_text(err));
    return r;
}

static void allocations_become_claims(void **state)
{
    struct gt_dra_claim claim;
    char why[200];
    (void)state;
    const struct gt_dra_result two[] = {{"gpus/mesh", "gpu-0000-10-00-0", false},
                                        {"gpus/mesh", "gpu-0000-11-00-0", true}};
    assert_int_equal(make(two, 2, &claim, why), 0);
    assert_int_equal(claim.device_count, 2);
    assert_string_equal(claim.devices[0].request, "gpus");
    assert_false(claim.devices[0].admin);
    assert_true(claim.devices[1].admin);
    assert_string_equal(claim.pods[1], "b");
    assert_int_equal(make(two, 0, &claim, why), -EINVAL);
    assert_non_null(strstr(why, "no GPU of this node is allocated"));
    const struct gt_dra_result twice[] = {two[0], two[0]};
    assert_int_equal(make(twice, 2, &claim, why), -EINVAL);
    assert_non_null(strstr(why, "twice"));
    const struct gt_dra_result odd[] = {{"gpus", "../../etc", false}},
                               nameless[] = {{"/x", "gpu-0000-10-00-0", false}};
    assert_int_equal(make(odd, 1, &claim, why), -EINVAL);
    assert_int_equal(make(nameless, 1, &claim, why), -EINVAL);
    struct gt_dra_result many[GT_DRA_CLAIM_DEVICES_MAX + 1];
    char names[GT_DRA_CLAIM_DEVICES_MAX + 1][GT_DRA_DEVICE_SIZE];
    for (unsigned i = 0; i < GT_COUNT(many); i++) {
        snprintf(names[i], sizeof(names[i]), "gpu-0000-%02x-00-0", i);
        many[i] = (struct gt_dra_result){"gpus", names[i], false};
    }
    assert_int_equal(make(many, GT_COUNT(many), &claim, why), -EINVAL);
    const struct gt_dra_claim_id other = {"ns", "claim", "uid-2"};
    const struct gt_dra_allocation allocation = {"uid-1", two, 2, NULL, 0};
    assert_int_equal(gt_dra_claim_make(&other, &allocation, &claim, NULL), -EINVAL);
}

static int check(const struct gt_inventory *inventory, const struct gt_dra_claims *claims, uint64_t others,
                 const struct gt_dra_claim *claim, const char *text)
{
    const struct gt_dra_facts facts = {inventory, claims, others};
    gt_auto_err struct gt_err *err = NULL;
    int r = gt_dra_claim_check(&facts, claim, &err);
    if (!strstr(gt_err_text(err), text))
        fail_msg("\"%s\" lacks \"%s\"", gt_err_text(err), text);
    return r;
}

static void last_guard(void **state)
{
    gt_auto_inventory struct gt_inventory *inventory = machine_inventory(machine_new(4, 1), NULL);
    gt_auto_inventory struct gt_inventory *unhealthy = NULL;
    struct gt_dra_claims claims = {0};
    struct gt_dra_claim held = make_claim("held", 3), wants = make_claim("wants", 6),
                        other = make_claim("other", 12), none = make_claim("none", 1 << 5);
    (void)state;
    assert_int_equal(check(NULL, &claims, 0, &wants, "not known yet"), -EAGAIN);
    assert_int_equal(check(inventory, &claims, 0, &wants, ""), 0);
    assert_return_code(gt_dra_claims_add(&claims, &held, NULL), 0);
    assert_int_equal(check(inventory, &claims, 0, &wants, "gpu-0000-11-00-0 is held by the claim ns/held"),
                     -EAGAIN);
    assert_int_equal(check(inventory, &claims, 0, &other, ""), 0);
    assert_int_equal(check(inventory, &claims, 8, &other, "gpu-0000-13-00-0 is in use by a container"),
                     -EAGAIN);
    assert_int_equal(check(inventory, &claims, 0, &none, "is no GPU of this node"), -ENODEV);
    assert_return_code(gt_inventory_withhold(inventory, 4, "it burns", &unhealthy, NULL), 0);
    /* unhealthy is for good, whoever holds the other one */
    assert_int_equal(check(unhealthy, &claims, 0, &wants, "gpu-0000-12-00-0 is unhealthy: it burns"),
                     -ENODEV);
    for (unsigned i = 0; i < wants.device_count; i++)
        wants.devices[i].admin = true;
    assert_int_equal(check(unhealthy, &claims, 2, &wants, ""), 0); /* for monitoring */
    gt_dra_claims_done(&claims);
}

/* Four GPUs, of which 0 to 2 are linked. */
static struct gt_inventory *linked_inventory(void)
{
    struct gt_node *node = machine_new(4, 1);
    for (unsigned i = 0; i < node->link_count; i++)
        node->links[i].kind = node->links[i].b < 3 ? GT_LINK_MX : GT_LINK_SYS;
    return machine_inventory(node, NULL);
}

static int expand(const struct gt_inventory *inventory, const char *one, const char *two,
                  struct gt_dra_claim *ret, const char *text)
{
    const struct gt_dra_result results[] = {{"gpus", one, false}, {"more", two, false}};
    gt_auto_err struct gt_err *err = NULL;
    char why[200];
    int r = make(results, two ? 2 : 1, ret, why);
    if (r == 0)
        r = gt_dra_claim_expand(inventory, ret, &err);
    if (err)
        snprintf(why, sizeof(why), "%s", gt_err_text(err));
    if (!strstr(why, text))
        fail_msg("\"%s\" lacks \"%s\"", why, text);
    return r;
}

static void composites_become_gpus(void **state)
{
    static const char first[] = "pair-0000-10-00-0-0000-11-00-0", zone[] = "zone-0000-10-00-0-3";
    gt_auto_inventory struct gt_inventory *inventory = linked_inventory(), *unhealthy = NULL;
    struct gt_dra_claims claims = {0};
    struct gt_dra_claim claim, again;
    (void)state;
    assert_int_equal(expand(inventory, zone, "gpu-0000-13-00-0", &claim, ""), 0);
    assert_int_equal(claim.device_count, 4);
    for (unsigned i = 0; i < 4; i++) {
        char name[GT_DRA_DEVICE_SIZE];
        snprintf(name, sizeof(name), "gpu-0000-1%u-00-0", i);
        assert_string_equal(claim.devices[i].device, name);
        assert_string_equal(claim.devices[i].composite, i < 3 ? zone : "");
        assert_string_equal(claim.devices[i].request, i < 3 ? "gpus" : "more");
    }
    again = claim;
    assert_int_equal(gt_dra_claim_expand(inventory, &again, NULL), 0);
    assert_memory_equal(&again, &claim, sizeof(claim));
    assert_int_equal(expand(inventory, "node-4", NULL, &claim, ""), 0);
    assert_int_equal(claim.device_count, 4);
    assert_int_equal(expand(inventory, "node-8", NULL, &claim, "do not make up node-8 now"), -ENODEV);
    assert_int_equal(expand(inventory, "zone-0000-10-00-0-4", NULL, &claim, "do not make up zone-"), -ENODEV);
    assert_int_equal(claim.device_count, 1);
    assert_int_equal(expand(inventory, first, zone, &claim, "overlap: both have gpu-0000-10-00-0"), -EINVAL);
    assert_int_equal(expand(inventory, "gpu-0000-11-00-0", first, &claim, "overlap: both have"), -EINVAL);
    assert_int_equal(expand(inventory, first, first, &claim, "twice"), -EINVAL);
    assert_int_equal(expand(inventory, "node-", NULL, &claim, "which is no GPU"), -EINVAL);
    assert_int_equal(expand(inventory, "pair-0000-10-00-0-../x", NULL, &claim, "which is no GPU"), -EINVAL);
    /* Another claim has one of its GPUs; one is unhealthy. */
    const struct gt_dra_claim held = make_claim("held", 2);
    assert_return_code(gt_dra_claims_add(&claims, &held, NULL), 0);
    assert_int_equal(expand(inventory, zone, NULL, &claim, ""), 0);
    assert_int_equal(check(inventory, &claims, 0, &claim,
                           "zone-0000-10-00-0-3: gpu-0000-11-00-0 is held by the claim ns/held"),
                     -EAGAIN);
    assert_return_code(gt_inventory_withhold(inventory, 4, "it burns", &unhealthy, NULL), 0);
    assert_int_equal(
        check(unhealthy, &claims, 0, &claim, "zone-0000-10-00-0-3: gpu-0000-12-00-0 is unhealthy: it burns"),
        -ENODEV);
    gt_dra_claims_done(&claims);
}

static void files_are_read_back(void **state)
{
    static const char *const wrong[] = {
        "",
        "[]",
        "{}",
        "{\"version\":1}",
        "{\"version\":0,\"claims\":[]}",
        "{\"version\":1,\"claims\":[{}]}",
        "{\"version\":1,\"claims\":[{\"namespace\":\"a\",\"name\":\"b\",\"uid\":\"../"
        "x\",\"devices\":[],\"pods\":[]}]}",
        "{\"version\":1,\"claims\":[{\"namespace\":\"a\",\"name\":\"b\",\"uid\":\"x\",\"devices\":[{"
        "\"request\":\"r\",\"device\":\"d\"}]}]}",
        "{\"version\":1,\"claims\":[{\"namespace\":\"a\",\"name\":\"b\",\"uid\":\"x\",\"devices\":[{"
        "\"request\":\"r\",\"device\":\"gpu-0000-10-00-0\",\"composite\":\"mesh\"}]}]}",
        "{\"version\":1,\"claims\":[{\"namespace\":\"a\",\"name\":\"b\",\"uid\":\"x\",\"devices\":[{"
        "\"request\":\"r\",\"device\":\"gpu-0000-10-00-0\"}]},"
        "{\"namespace\":\"a\",\"name\":\"c\",\"uid\":\"y\",\"devices\":[{\"request\":\"r\",\"device\":\"gpu-"
        "0000-10-00-0\"}]}]}",
    };
    struct gt_dra_claims claims = {0}, again = {0};
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        char name[2] = {(char)('a' + i), '\0'};
        struct gt_dra_claim claim = make_claim(name, 3U << 2 * i);
        claim.devices[1].admin = i == 1;
        if (i == 2)
            snprintf(claim.devices[0].composite, sizeof(claim.devices[0].composite), "node-8");
        assert_return_code(gt_dra_claims_add(&claims, &claim, NULL), 0);
    }
    gt_auto_buf struct gt_buf text = GT_BUF(GT_DRA_FILE_MAX), other = GT_BUF(GT_DRA_FILE_MAX);
    gt_dra_claims_write(&claims, &text);
    assert_return_code(gt_dra_claims_read(text.data, text.len, "x", &again, NULL), 0);
    gt_dra_claims_write(&again, &other);
    assert_string_equal(text.data, other.data);
    assert_int_equal(again.count, 3);
    assert_string_equal(again.list[2].devices[0].composite, "node-8");
    assert_true(gt_dra_claims_remove(&again, "uid-a"));
    assert_false(gt_dra_claims_remove(&again, "uid-a"));
    assert_null(gt_dra_claims_with_device(&again, "gpu-0000-10-00-0"));
    assert_string_equal(gt_dra_claims_with_device(&again, "gpu-0000-12-00-0")->id.name, "b");
    assert_null(gt_dra_claims_with_device(&again, "gpu-0000-13-00-0")); /* for monitoring */
    for (unsigned i = 0; i < GT_COUNT(wrong); i++) {
        gt_auto_err struct gt_err *err = NULL;
        if (gt_dra_claims_read(wrong[i], strlen(wrong[i]), "x", &again, &err) != -EINVAL)
            fail_msg("%s is taken", wrong[i]);
    }
    static const char newer[] = "{\"version\":2,\"claims\":\"other\"}";
    assert_int_equal(gt_dra_claims_read(newer, strlen(newer), "x", &again, NULL), -EPROTONOSUPPORT);
    gt_dra_claims_done(&again);
    gt_dra_claims_done(&claims);
}

static char directory[64];

static int make_directory(void **state)
{
    (void)state;
    snprintf(directory, sizeof(directory), "/tmp/gputopo-dra-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", directory);
    return system(command);
}

static char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    return path;
}

/* As the disk's thread does it: the lock, reading, one write. */
static int change(struct gt_dra_store *store, const struct gt_dra_claim *add, const char *remove)
{
    struct gt_dra_claims claims = {0};
    gt_auto_close int fd = gt_dra_store_lock(store, NULL);
    int r = fd < 0 ? fd : gt_dra_store_read(store, NULL, NULL, NULL);
    if (r >= 0)
        r = gt_dra_claims_copy(gt_dra_store_claims(store), &claims, NULL);
    if (r >= 0 && add)
        r = gt_dra_claims_add(&claims, add, NULL);
    if (r >= 0 && remove)
        gt_dra_claims_remove(&claims, remove);
    if (r >= 0)
        r = gt_dra_store_write(store, &claims, NULL);
    gt_dra_claims_done(&claims);
    return r;
}

static void store_is_shared(void **state)
{
    gt_auto_dra_store struct gt_dra_store *one = NULL, *two = NULL;
    const struct gt_dra_claim a = make_claim("a", 3), c = make_claim("c", 4);
    gt_auto_free char *why = NULL;
    bool changed;
    (void)state;
    assert_return_code(gt_dra_store_new(path_of("s"), &one, NULL), 0);
    assert_return_code(gt_dra_store_new(path_of("s"), &two, NULL), 0);
    assert_false(gt_dra_store_is_used(path_of("s")));
    assert_return_code(change(one, NULL, NULL), 0);
    assert_true(gt_dra_store_is_used(path_of("s")));
    assert_return_code(change(one, &a, NULL), 0);
    assert_int_equal(change(two, &a, NULL), -EEXIST); /* it reads that first */
    assert_return_code(change(two, &c, NULL), 0);
    assert_return_code(gt_dra_store_read(one, &changed, NULL, NULL), 0);
    assert_true(changed);
    assert_int_equal(gt_dra_store_claims(one)->count, 2);
    assert_return_code(gt_dra_store_read(one, &changed, NULL, NULL), 0);
    assert_false(changed);
    int lock = gt_dra_store_lock(two, NULL);
    assert_return_code(lock, errno);
    assert_int_equal(change(one, NULL, "uid-a"), -EBUSY);
    close(lock);
    assert_return_code(change(one, NULL, "uid-a"), 0);
    gt_dra_store_unmark(one);
    assert_true(gt_dra_store_is_used(path_of("s"))); /* there are claims */
    assert_return_code(gt_file_write(path_of("s/claims.json"), "{nonsense", 9, 0600, NULL), 0);
    assert_return_code(gt_dra_store_read(one, &changed, &why, NULL), 0);
    assert_non_null(strstr(why, "claims.json"));
    assert_int_equal(access(path_of("s/claims.json.unreadable"), F_OK), 0);
    assert_int_equal(access(path_of("s/claims.json"), F_OK), -1);
    assert_return_code(gt_file_write(path_of("s/claims.json"), "{\"version\":9}", 13, 0600, NULL), 0);
    assert_int_equal(change(one, &a, NULL), -EPROTONOSUPPORT);
    assert_int_equal(access(path_of("s/claims.json"), F_OK), 0); /* the newer release finds it again */
}

static void store_needs_a_directory(void **state)
{
    gt_auto_dra_store struct gt_dra_store *store = NULL;
    const struct gt_dra_claim a = make_claim("a", 3);
    (void)state;
    assert_return_code(gt_dra_store_new(path_of("no/such"), &store, NULL), 0);
    assert_int_equal(change(store, &a, NULL), -ENOENT);
    assert_int_equal(gt_dra_store_claims(store)->count, 0);
}

/* The largest claims, as many as there can be: a write cannot fail since one claim is too large. */
static void file_has_room(void **state)
{
    gt_auto_buf struct gt_buf text = GT_BUF(GT_DRA_FILE_MAX);
    struct gt_dra_claims claims = {calloc(GT_DRA_CLAIMS_MAX, sizeof(*claims.list)), GT_DRA_CLAIMS_MAX};
    (void)state;
    assert_non_null(claims.list);
    for (unsigned i = 0; i < claims.count; i++) {
        struct gt_dra_claim *claim = &claims.list[i];
        memset(claim, 'x', sizeof(*claim));
        claim->device_count = GT_DRA_CLAIM_DEVICES_MAX;
        claim->pod_count = GT_DRA_PODS_KEPT;
        claim->id.namespace[sizeof(claim->id.namespace) - 1] = '\0';
        claim->id.name[sizeof(claim->id.name) - 1] = claim->id.uid[sizeof(claim->id.uid) - 1] = '\0';
        for (unsigned k = 0; k < claim->device_count; k++) {
            struct gt_dra_claimed_device *device = &claim->devices[k];
            device->request[sizeof(device->request) - 1] = device->device[sizeof(device->device) - 1] = '\0';
            device->composite[sizeof(device->composite) - 1] = '\0';
            device->admin = true;
        }
        for (unsigned k = 0; k < claim->pod_count; k++)
            claim->pods[k][sizeof(claim->pods[k]) - 1] = '\0';
    }
    gt_dra_claims_write(&claims, &text);
    assert_return_code(gt_buf_check(&text, "claims", NULL), 0);
    gt_dra_claims_done(&claims);
}

static void make_node(const char *name)
{
    gt_auto_close int fd = open(path_of(name), O_CREAT | O_WRONLY, 0600);
    assert_return_code(fd, errno);
}

static void make_old(const char *name)
{
    const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    assert_return_code(utimensat(AT_FDCWD, path_of(name), times, 0), errno);
}

static void specs_of_claims(void **state)
{
    gt_auto_inventory struct gt_inventory *inventory = machine_inventory(machine_new(2, 1), NULL);
    struct gt_dra_claim claim = make_claim("a", 3);
    struct gt_dra_claims claims = {&claim, 1};
    gt_auto_free char *cdi = strdup(path_of("cdi")), *text = NULL;
    const struct gt_cdi_options own = {cdi, kind, directory};
    struct stat first, again;
    (void)state;
    snprintf(claim.devices[1].request, sizeof(claim.devices[1].request), "second");
    gt_auto_err struct gt_err *err = NULL;
    assert_int_equal(gt_dra_cdi_write(&own, inventory, &claim, &err), -ENOENT);
    assert_return_code(mkdir(path_of("dri"), 0700), errno);
    make_node("mxcd");
    make_node("dri/card0");
    make_node("dri/renderD128");
    make_node("dri/card1");
    make_node("dri/renderD129");
    assert_return_code(gt_dra_cdi_write(&own, inventory, &claim, NULL), 0);
    assert_return_code(gt_file_read(AT_FDCWD, path_of("cdi/metax-tech.com-gpu-claim-uid-a.json"), 1 << 16,
                                    &text, NULL, NULL),
                       0);
    assert_non_null(strstr(text, "\"cdiVersion\":\"0.6.0\""));
    assert_non_null(strstr(text, "\"uid-a-gpu-0000-10-00-0\""));
    assert_non_null(strstr(text, "\"METAX_GPU_UUIDS=GPU-0\""));
    assert_non_null(strstr(text, "\"METAX_GPU_UUIDS=GPU-1\""));
    assert_return_code(stat(path_of("cdi/metax-tech.com-gpu-claim-uid-a.json"), &first), errno);
    assert_return_code(gt_dra_cdi_write(&own, inventory, &claim, NULL), 0);
    assert_return_code(stat(path_of("cdi/metax-tech.com-gpu-claim-uid-a.json"), &again), errno);
    assert_int_equal(first.st_ino, again.st_ino); /* nothing to write */
    make_node("cdi/metax-tech.com-gpu-claim-uid-gone.json");
    make_node("cdi/metax-tech.com-gpu-claim-uid-a.json.AbCdEf");
    make_node("cdi/metax-tech.com-gpu.json");
    make_node("cdi/other.json");
    assert_int_equal(gt_dra_cdi_sweep(&own, &claims), 0); /* another instance may be writing them */
    make_old("cdi/metax-tech.com-gpu-claim-uid-gone.json");
    make_old("cdi/metax-tech.com-gpu-claim-uid-a.json.AbCdEf");
    assert_int_equal(gt_dra_cdi_sweep(&own, &claims), 2);
    assert_int_equal(access(path_of("cdi/metax-tech.com-gpu.json"), F_OK), 0);
    assert_int_equal(access(path_of("cdi/metax-tech.com-gpu-claim-uid-a.json"), F_OK), 0);
    assert_return_code(gt_dra_cdi_remove(&own, "uid-a", NULL), 0);
    assert_return_code(gt_dra_cdi_remove(&own, "uid-a", NULL), 0);
}

static void messages_of_claims(void **state)
{
    struct gt_dra_claim claim = make_claim("a", 3);
    const struct gt_dra_outcome outcomes[] = {{"uid-a", &claim, NULL}, {"uid-b", NULL, "no\n"}};
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
    (void)state;
    gt_dra_answer_prepare(&outcomes[0], pool, kind, &text);
    gt_dra_answer_prepare(&outcomes[1], pool, kind, &text);
    Dra__PrepareResponse *response =
        gt_unpack(&dra__prepare_response__descriptor, (const uint8_t *)text.data, text.len, 1 << 20);
    assert_non_null(response);
    assert_int_equal(response->n_claims, 2);
    assert_string_equal(response->claims[0]->key, "uid-a");
    assert_int_equal(response->claims[0]->value->n_devices, 2);
    const Dra__Device *device = response->claims[0]->value->devices[0];
    assert_string_equal(device->requests[0], "gpus");
    assert_string_equal(device->pool, "node1");
    assert_int_equal(device->n_cdi_ids, 2);
    assert_string_equal(device->cdi_ids[0], "metax-tech.com/gpu=uid-a-gpu-0000-10-00-0");
    assert_string_equal(device->cdi_ids[1], "metax-tech.com/gpu=uid-a-gpus-request");
    assert_int_equal(response->claims[0]->value->devices[1]->n_cdi_ids, 1);
    assert_string_equal(response->claims[1]->value->error, "no?");
    gt_unpacked_free(&response->base);
}

static void requests_are_checked(void **state)
{
    static const uint8_t nonsense[] = {0x0a, 0xff};
    char uid[8] = "u", name[8] = "n", namespace[8] = "ns";
    Dra__Claim one, other, *claims[] = {&one, &other};
    Dra__ClaimsRequest message = DRA__CLAIMS_REQUEST__INIT;
    struct gt_dra_request *request = NULL;
    (void)state;
    dra__claim__init(&one);
    dra__claim__init(&other);
    one.namespace_ = other.namespace_ = namespace;
    one.name = other.name = name;
    one.uid = other.uid = uid;
    message.claims = claims;
    for (unsigned count = 0; count <= 2; count++) {
        gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
        message.n_claims = count;
        gt_pack(&message.base, &text);
        int r = gt_dra_request_read((const uint8_t *)text.data, text.len, &request, NULL);
        assert_int_equal(r, count == 2 ? -EINVAL : 0); /* one claim twice */
        if (r < 0)
            continue;
        assert_int_equal(request->count, count);
        free(request);
    }
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
    message.n_claims = 1;
    memcpy(uid, "../x", 5);
    gt_pack(&message.base, &text);
    assert_int_equal(gt_dra_request_read((const uint8_t *)text.data, text.len, &request, NULL), -EINVAL);
    assert_int_equal(gt_dra_request_read(nonsense, sizeof(nonsense), &request, NULL), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_places),
        cmocka_unit_test(allocations_become_claims),
        cmocka_unit_test(last_guard),
        cmocka_unit_test(composites_become_gpus),
        cmocka_unit_test(files_are_read_back),
        cmocka_unit_test_setup_teardown(store_is_shared, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(store_needs_a_directory, make_directory, remove_directory),
        cmocka_unit_test(file_has_room),
        cmocka_unit_test_setup_teardown(specs_of_claims, make_directory, remove_directory),
        cmocka_unit_test(messages_of_claims),
        cmocka_unit_test(requests_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
