/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "kube/informer.h"
#include "scheduler-ext/companion/informers.h"

enum { HANDLERS = 2 };

/* The informers of kube/ as they are here: nothing comes but what a test passes on. */
static struct gt_kube_informer_spec specs[GT_INFORMER_KINDS];
static unsigned started;

int gt_kube_informer_start(struct gt_kube *kube, const struct gt_kube_informer_spec *spec,
                           struct gt_kube_informer **ret, struct gt_err **err)
{
    (void)kube;
    (void)err;
    *ret = NULL;
    specs[started++] = *spec;
    return 0;
}

void gt_kube_informer_free(struct gt_kube_informer *informer)
{
    (void)informer;
}

void gt_kube_informer_counters(const struct gt_kube_informer *informer, struct gt_kube_informer_counters *ret)
{
    (void)informer;
    (void)ret;
}

struct observer {
    unsigned placements, quotas;
};

static void on_object(void *arg, enum gt_informer_kind kind, const cJSON *object)
{
    struct observer *observer = arg;
    assert_non_null(object);
    observer->placements += kind == GT_INFORMER_PLACEMENTS;
    observer->quotas += kind == GT_INFORMER_QUOTAS;
}

static void pass_on(unsigned at, const char *text)
{
    cJSON *object = cJSON_Parse(text);
    assert_non_null(object);
    specs[at].on_add(specs[at].arg, object);
    specs[at].on_update(specs[at].arg, object);
    cJSON_Delete(object);
}

/* What one handler does with an object does not take it from the next. */
static void test_every_handler_gets_every_object(void **state)
{
    struct observer observers[HANDLERS] = {{0}};
    struct gt_loop *loop = NULL;
    (void)state;
    assert_int_equal(gt_loop_new(&loop, NULL), 0);
    const struct gt_informers_spec spec = {.kinds = 1U << GT_INFORMER_PLACEMENTS | 1U << GT_INFORMER_QUOTAS};
    struct gt_informers *informers = NULL;
    assert_int_equal(gt_informers_new(loop, NULL, &spec, &informers, NULL), 0);
    for (unsigned i = 0; i < HANDLERS; i++) {
        const struct gt_cache_handlers handlers = {.observe = on_object, .arg = &observers[i]};
        assert_true(gt_informers_add_handlers(informers, &handlers));
    }
    assert_int_equal(gt_informers_start(informers, NULL), 0);
    assert_int_equal(started, 2);
    pass_on(0, "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"job-a\"}}");
    pass_on(1, "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"q\"},"
               "\"spec\":{\"hard\":{\"requests.metax-tech.com/gpu\":\"8\"}}}");
    for (unsigned i = 0; i < HANDLERS; i++) {
        assert_int_equal(observers[i].placements, 2);
        assert_int_equal(observers[i].quotas, 2);
    }
    gt_informers_free(informers);
    gt_loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_handler_gets_every_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
