/* SPDX-License-Identifier: Apache-2.0 */
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "tests/unit/model/loss_wirings.h"
#include "topology/model/loss.h"

/*
 * What the choice costs, on one thread. Prints measures in the form that loss.sh describes; with
 * `--matrix 8|16` the pair weights that the peers are measured on.
 *
 * A time is the shortest of several repetitions, to exclude other work of the machine.
 */

static double now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void measure(const char *name, double value, const char *unit, const char *goal)
{
    printf("%s\t%.*f\t%s\t%s\n", name, value < 100 && strcmp(unit, "") != 0 ? 2 : 0, value, unit, goal);
    fflush(stdout);
}

static struct gt_class *class_of(const struct gt_weights *weights)
{
    gt_auto_err struct gt_err *err = NULL;
    struct gt_class *class = NULL;

    if (gt_class_new(weights, &class, &err) < 0) {
        fprintf(stderr, "bench_loss: %s\n", gt_err_text(err));
        exit(2);
    }
    return class;
}

/* The matrices of the bench: two meshes, joined by the path between sockets. */
static void matrix(struct gt_weights *ret, unsigned n)
{
    wire_meshes(ret, n, n / 2, 64, 8);
}

/* Weights of which no two sets are alike, so that no short cut applies. */
static void irregular(struct gt_weights *ret, unsigned n)
{
    uint64_t random = 42;

    wire_random(ret, n, 65536, &random);
}

static double build_ns(const struct gt_weights *weights, unsigned repeat)
{
    double least = 1e18;

    for (unsigned i = 0; i < repeat; i++) {
        double before = now_ns(), took;
        struct gt_class *class = class_of(weights);

        took = now_ns() - before;
        gt_class_unref(class);
        least = took < least ? took : least;
    }
    return least;
}

enum { QUESTIONS = 4096, MOST_WORK_NS = 20 * 1000 * 1000 };

/* The mean over random free sets and every k, in random order. With 8 GPUs the class keeps all answers, with
 * 16 a part of them. */
static double choose_mean_ns(const struct gt_class *class)
{
    static struct {
        uint16_t free, k;
    } query[QUESTIONS];
    uint64_t random = 7, seen = 0;
    unsigned n = gt_class_gpus(class);
    double least = 1e18;

    for (unsigned i = 0; i < QUESTIONS; i++) {
        uint64_t free;

        do
            free = random_next(&random) & ((UINT64_C(1) << n) - 1);
        while (!free);
        query[i].free = (uint16_t)free;
        query[i].k = (uint16_t)(1 + random_next(&random) % (unsigned)__builtin_popcountll(free));
    }
    for (unsigned repeat = 0; repeat < 200; repeat++) {
        double before = now_ns(), took;

        for (unsigned i = 0; i < QUESTIONS; i++) {
            struct gt_choice choice;

            if (gt_choose(class, query[i].free, 0, query[i].k, 0, &choice))
                seen += choice.mask + choice.score + choice.loss;
        }
        took = (now_ns() - before) / QUESTIONS;
        least = took < least ? took : least;
    }
    if (!seen)
        fprintf(stderr, "bench_loss: nothing was chosen\n");
    return least;
}

/* One question, least of several; few repetitions of a long one. */
static double choose_ns(const struct gt_class *class, uint64_t free, uint64_t must, unsigned k)
{
    double least = 1e18, total = 0;
    struct gt_choice choice;

    for (unsigned repeat = 0; repeat < 5 || (repeat < 50 && total < 1e6); repeat++) {
        unsigned calls = least < 1e4 ? 100 : 1;
        double before = now_ns(), took;

        for (unsigned i = 0; i < calls; i++)
            gt_choose(class, free, must, k, 0, &choice);
        took = now_ns() - before;
        total += took;
        took /= calls;
        least = took < least ? took : least;
        if (total > MOST_WORK_NS)
            break;
    }
    return least;
}

/* The slowest question over every k, and over every GPU that must be in where there is to be one. */
static double worst_ns(const struct gt_class *class, bool with_must)
{
    unsigned n = gt_class_gpus(class);
    uint64_t all = n == 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1;
    double worst = 0;

    for (unsigned k = 1; k <= n; k++)
        for (unsigned must = 0; must < (with_must ? n : 1); must++) {
            double took = choose_ns(class, all, with_must ? UINT64_C(1) << must : 0, k);

            worst = took > worst ? took : worst;
        }
    return worst;
}

/* A new class and its first answer, for the slowest k. */
static double first_ns(const struct gt_weights *weights, unsigned repeat)
{
    double worst = 0;

    for (unsigned k = 1; k <= weights->n; k++) {
        double least = 1e18;

        for (unsigned i = 0; i < repeat; i++) {
            double before = now_ns(), took;
            struct gt_class *class = class_of(weights);
            struct gt_choice choice;

            gt_choose(class, (UINT64_C(1) << weights->n) - 1, 0, k, 0, &choice);
            took = now_ns() - before;
            gt_class_unref(class);
            least = took < least ? took : least;
        }
        worst = least > worst ? least : worst;
    }
    return worst;
}

static void small(void)
{
    char name[80];

    printf("# all sets, up to 16 GPUs\n");
    for (unsigned n = 8; n <= 16; n += 8) {
        gt_auto_class struct gt_class *class = NULL, *odd = NULL;
        struct gt_weights weights;

        matrix(&weights, n);
        class = class_of(&weights);
        snprintf(name, sizeof(name), "build, %u GPUs", n);
        measure(name, build_ns(&weights, 2000) / 1e3, "us", n == 8 ? "<30" : "<100");
        snprintf(name, sizeof(name), "memory of a class, %u GPUs", n);
        measure(name, (double)malloc_usable_size(class) / 1024, "KiB", n == 8 ? "<10" : "<16");
        snprintf(name, sizeof(name), "choose any k of any free set of %u, mean", n);
        measure(name, choose_mean_ns(class), "ns", n == 8 ? "<50" : "<1000");
        snprintf(name, sizeof(name), "choose %u of %u, all free", n / 4, n);
        measure(name, choose_ns(class, (UINT64_C(1) << n) - 1, 0, n / 4), "ns", "-");
        snprintf(name, sizeof(name), "choose %u of %u, sum of weights of the choice", n / 4, n);
        measure(name, gt_class_best_score(class, n / 4), "", "-");
        wire_meshes(&weights, n, n, 64, 8); /* all sets tie: the most work */
        snprintf(name, sizeof(name), "first choice of a new class of %u, worst k", n);
        measure(name, first_ns(&weights, 20) / 1e3, "us", "<200");
        irregular(&weights, n);
        odd = class_of(&weights);
        snprintf(name, sizeof(name), "choose any k of %u again, worst", n);
        measure(name, worst_ns(odd, false), "ns", "<10000");
        snprintf(name, sizeof(name), "choose any k of %u, one GPU must be in, worst", n);
        measure(name, worst_ns(odd, true) / 1e3, "us", "<100");
    }
}

static void large(void)
{
    gt_auto_class struct gt_class *mesh = NULL, *meshes = NULL, *odd = NULL;
    struct gt_weights weights;

    printf("# the search, above 16 GPUs\n");
    wire_meshes(&weights, 64, 64, 64, 8);
    mesh = class_of(&weights);
    measure("choose any k of 64, one mesh, worst", worst_ns(mesh, false) / 1e3, "us", "<20000");
    wire_meshes(&weights, 64, 8, 64, 8);
    meshes = class_of(&weights);
    measure("choose any k of 64, eight meshes, worst", worst_ns(meshes, false) / 1e3, "us", "<20000");
    irregular(&weights, 24);
    odd = class_of(&weights);
    measure("choose any k of 24, random weights, worst", worst_ns(odd, false) / 1e3, "us", "<20000");
}

static int print_matrix(const char *size)
{
    struct gt_weights weights;
    unsigned n = strcmp(size, "8") == 0 ? 8 : strcmp(size, "16") == 0 ? 16 : 0;

    if (!n)
        return -1;
    matrix(&weights, n);
    for (unsigned i = 0; i < n; i++)
        for (unsigned j = 0; j < n; j++)
            printf("%u%c", weights.w[i][j], j + 1 < n ? ' ' : '\n');
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--matrix") == 0 && print_matrix(argv[2]) == 0)
        return 0;
    if (argc != 1) {
        fprintf(stderr, "usage: bench_loss [--matrix 8|16]\n");
        return 2;
    }
    small();
    large();
    return 0;
}
