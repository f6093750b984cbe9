/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>

#include "base/mailbox.h"

enum { THREADS = 4, EACH = 1000 }; /* together below GT_MESSAGES_MAX: none is lost */

struct note {
    struct gt_message message;
    unsigned sender, number;
};

struct world {
    struct gt_loop *loop;
    struct gt_mailbox *mailbox;
    struct gt_source *timer;
    unsigned next[THREADS + 1]; /* the number that is expected of each sender */
    unsigned count, last;
    bool out_of_order;

    struct note note; /* embedded */
    pthread_mutex_t lock;
    unsigned sent; /* under lock, as the next */
    bool over;
};

static void give_up(void *arg)
{
    struct world *world = arg;
    gt_loop_stop(world->loop, -ETIMEDOUT);
}

static void stop(void *owner, struct gt_message *message)
{
    struct world *world = owner;
    (void)message;
    gt_loop_stop(world->loop, 0);
}

static void take_note(void *owner, struct gt_message *message)
{
    struct world *world = owner;
    const struct note *note = (const struct note *)message;
    world->count++;
    world->last = note->number;
    world->out_of_order |= note->number != world->next[note->sender]++;
}

static int set_up(void **state)
{
    struct world *world = calloc(1, sizeof(*world));
    assert_non_null(world);
    pthread_mutex_init(&world->lock, NULL);
    world->note.message = (struct gt_message){.embedded = true, .deliver = take_note};
    world->note.sender = THREADS;
    assert_return_code(gt_loop_new(&world->loop, NULL), 0);
    assert_return_code(gt_mailbox_new(world->loop, world, &world->mailbox, NULL), 0);
    assert_return_code(gt_loop_add_timer(world->loop, give_up, world, &world->timer, NULL), 0);
    gt_source_arm(world->timer, 30000); /* with a lost message the test fails and does not hang */
    *state = world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    gt_mailbox_free(world->mailbox);
    gt_loop_free(world->loop);
    pthread_mutex_destroy(&world->lock);
    free(world);
    return 0;
}

static bool send(struct world *world, unsigned sender, unsigned number)
{
    struct note *note = calloc(1, sizeof(*note));
    if (!note)
        return false;
    *note = (struct note){.message = {.deliver = take_note}, .sender = sender, .number = number};
    gt_mailbox_send(world->mailbox, &note->message);
    return true;
}

static int deliver_all(struct world *world)
{
    struct gt_message last = {.embedded = true, .deliver = stop};
    gt_mailbox_send(world->mailbox, &last);
    return gt_loop_run(world->loop, NULL);
}

struct sender {
    pthread_t thread;
    struct world *world;
    unsigned number;
};

static void start_senders(struct world *world, struct sender senders[THREADS], void *(*run)(void *))
{
    for (unsigned i = 0; i < THREADS; i++) {
        senders[i] = (struct sender){.world = world, .number = i};
        assert_int_equal(pthread_create(&senders[i].thread, NULL, run, &senders[i]), 0);
    }
}

static void join_senders(struct sender senders[THREADS])
{
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(senders[i].thread, NULL);
}

static void *send_many(void *arg)
{
    const struct sender *sender = arg;
    for (unsigned i = 0; i < EACH; i++)
        if (!send(sender->world, sender->number, i))
            break;
    return NULL;
}

static void check_all(void *owner, struct gt_message *message)
{
    struct world *world = owner;
    if (world->count == THREADS * EACH)
        gt_loop_stop(world->loop, 0);
    else
        gt_mailbox_send(world->mailbox, message); /* looks again in the next round */
}

static void many_senders_keep_their_order(void **state)
{
    struct world *world = *state;
    struct sender senders[THREADS];
    world->note.message.deliver = check_all;
    gt_mailbox_send(world->mailbox, &world->note.message);
    start_senders(world, senders, send_many);
    int r = gt_loop_run(world->loop, NULL);
    join_senders(senders);
    assert_int_equal(r, 0);
    assert_int_equal(world->count, THREADS * EACH);
    assert_false(world->out_of_order);
}

/* Counts up and sends one message each time: the owner must get the last number. */
static void *count_up(void *arg)
{
    const struct sender *sender = arg;
    struct world *world = sender->world;
    for (unsigned i = 0; i < EACH; i++) {
        pthread_mutex_lock(&world->lock);
        world->sent++;
        pthread_mutex_unlock(&world->lock);
        gt_mailbox_send(world->mailbox, &world->note.message);
    }
    return NULL;
}

static void look_at_sent(void *owner, struct gt_message *message)
{
    struct world *world = owner;
    (void)message;
    pthread_mutex_lock(&world->lock);
    world->last = world->sent;
    pthread_mutex_unlock(&world->lock);
    world->count++;
    if (world->last == THREADS * EACH)
        gt_loop_stop(world->loop, 0);
}

static void an_embedded_letter_tells_the_last(void **state)
{
    struct world *world = *state;
    struct sender senders[THREADS];
    world->note.message.deliver = look_at_sent;
    start_senders(world, senders, count_up);
    int r = gt_loop_run(world->loop, NULL);
    join_senders(senders);
    assert_int_equal(r, 0);
    assert_int_equal(world->last, THREADS * EACH);
    assert_in_range(world->count, 1, THREADS * EACH);
}

static void an_embedded_letter_waits_once(void **state)
{
    struct world *world = *state;
    gt_mailbox_send(world->mailbox, &world->note.message);
    assert_true(send(world, 0, 0));
    gt_mailbox_send(world->mailbox, &world->note.message);
    assert_int_equal(deliver_all(world), 0);
    assert_int_equal(world->count, 2);
    world->next[THREADS] = 0;
    gt_mailbox_send(world->mailbox, &world->note.message);
    assert_int_equal(deliver_all(world), 0);
    assert_int_equal(world->count, 3);
    assert_false(world->out_of_order);
}

static void others_are_bounded(void **state)
{
    struct world *world = *state;
    for (unsigned i = 0; i < GT_MESSAGES_MAX + 5; i++)
        assert_true(send(world, 0, i));
    struct note *lost = calloc(1, sizeof(*lost));
    assert_non_null(lost);
    lost->message.deliver = take_note;
    assert_false(gt_mailbox_send(world->mailbox, &lost->message));
    assert_true(gt_mailbox_send(world->mailbox, &world->note.message)); /* still has room */
    assert_int_equal(deliver_all(world), 0);
    assert_int_equal(world->next[0], GT_MESSAGES_MAX);
    assert_int_equal(world->next[THREADS], 1);
    assert_true(send(world, 0, GT_MESSAGES_MAX));
    assert_int_equal(deliver_all(world), 0);
    assert_int_equal(world->next[0], GT_MESSAGES_MAX + 1);
    assert_false(world->out_of_order);
}

static void send_again(void *owner, struct gt_message *message)
{
    struct world *world = owner;
    world->count++;
    gt_mailbox_send(world->mailbox, message);
}

static void on_timer(void *arg)
{
    struct world *world = arg;
    gt_loop_stop(world->loop, 7);
}

static void a_delivery_may_send_again(void **state)
{
    struct world *world = *state;
    struct gt_source *timer = NULL;
    assert_return_code(gt_loop_add_timer(world->loop, on_timer, world, &timer, NULL), 0);
    gt_source_arm(timer, 20);
    world->note.message.deliver = send_again;
    gt_mailbox_send(world->mailbox, &world->note.message);
    assert_int_equal(gt_loop_run(world->loop, NULL), 7);
    assert_true(world->count > 1);
}

static void *send_to_the_end(void *arg)
{
    const struct sender *sender = arg;
    struct world *world = sender->world;
    for (bool over = false; !over;) {
        if (!send(world, sender->number, 0))
            break;
        gt_mailbox_send(world->mailbox, &world->note.message);
        pthread_mutex_lock(&world->lock);
        over = world->over;
        world->sent++;
        pthread_mutex_unlock(&world->lock);
    }
    return NULL;
}

/* As at the end of a daemon: the loop runs no more, senders do not know it yet. */
static void nothing_is_delivered_after_the_end(void **state)
{
    struct world *world = *state;
    struct sender senders[THREADS];
    start_senders(world, senders, send_to_the_end);
    assert_int_equal(deliver_all(world), 0);
    unsigned count = world->count;
    pthread_mutex_lock(&world->lock);
    unsigned sent = world->sent;
    pthread_mutex_unlock(&world->lock);
    for (unsigned now = sent; now < sent + GT_MESSAGES_MAX;) {
        pthread_mutex_lock(&world->lock);
        now = world->sent;
        pthread_mutex_unlock(&world->lock);
    }
    pthread_mutex_lock(&world->lock);
    world->over = true;
    pthread_mutex_unlock(&world->lock);
    join_senders(senders);
    gt_mailbox_free(gt_steal(world->mailbox));
    struct gt_source *timer = NULL;
    assert_return_code(gt_loop_add_timer(world->loop, on_timer, world, &timer, NULL), 0);
    gt_source_arm(timer, 1);
    assert_int_equal(gt_loop_run(world->loop, NULL), 7);
    assert_int_equal(world->count, count);
}

static void no_descriptor(void **state)
{
    struct world *world = *state;
    struct rlimit before, none;
    assert_return_code(getrlimit(RLIMIT_NOFILE, &before), errno);
    none = before;
    none.rlim_cur = 3;
    struct gt_mailbox *mailbox = NULL;
    gt_auto_err struct gt_err *err = NULL;
    assert_return_code(setrlimit(RLIMIT_NOFILE, &none), errno);
    int r = gt_mailbox_new(world->loop, world, &mailbox, &err);
    assert_return_code(setrlimit(RLIMIT_NOFILE, &before), errno);
    assert_int_equal(r, -EMFILE);
    assert_null(mailbox);
    assert_string_equal(gt_err_text(err), "mailbox: Too many open files");
    gt_mailbox_free(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(many_senders_keep_their_order),
        TEST(an_embedded_letter_tells_the_last),
        TEST(an_embedded_letter_waits_once),
        TEST(others_are_bounded),
        TEST(a_delivery_may_send_again),
        TEST(nothing_is_delivered_after_the_end),
        TEST(no_descriptor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
