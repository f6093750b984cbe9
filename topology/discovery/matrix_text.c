/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "topology/discovery/backends.h"

/*
 * The matrix of `mx-smi topo -m` and `-n`, of `nvidia-smi topo -m`, and of `gputopo show`: a line of column
 * names, a row for each GPU and NIC, legends. Words are all that counts, so lines that a terminal has wrapped
 * are read, too: a word belongs to the row that was begun last.
 */

enum {
    CELLS_MAX = GT_GPUS_MAX + GT_NICS_MAX,
    AFFINITIES_MAX = 4,
    MATRIX_WORDS_MAX = CELLS_MAX + 2 * AFFINITIES_MAX + 1,
};

/* What a column behind the cells tells. */
enum affinity { AFFINITY_NUMA, AFFINITY_CPUS, AFFINITY_OTHER };

struct matrix_row {
    char *words[MATRIX_WORDS_MAX]; /* its name, its cells, its affinities */
    unsigned count;
};

struct matrix {
    const char *source;
    struct matrix_row head, *rows; /* a row for each GPU */
    unsigned gpus, nics;           /* columns; the NICs are behind the GPUs */
    enum affinity affinities[AFFINITIES_MAX];
    unsigned affinity_count;
    const char *nic_names[GT_NICS_MAX]; /* of the legend; NULL: it names none */
};

/* N of a word such as "GPU12"; -1 for any other. */
static int numbered(const char *word, const char *prefix)
{
    size_t len = strlen(prefix);
    uint64_t number;
    return strncmp(word, prefix, len) == 0 && gt_text_to_unsigned(word + len, 999, &number) ? (int)number
                                                                                            : -1;
}

/* Terminals' colours, and what else prints nothing. */
static void drop_escapes(char *text)
{
    char *to = text;
    while (*text)
        if (text[0] == '\033' && text[1] == '[') {
            text += 2;
            while (*text && !isalpha((unsigned char)*text))
                text++;
            text += *text != '\0';
        } else if (*text == '\r') {
            text++;
        } else {
            *to++ = *text++;
        }
    *to = '\0';
}

static void add_words(struct matrix_row *row, struct matrix_row *line)
{
    for (unsigned i = 0; i < line->count && row->count < MATRIX_WORDS_MAX; i++)
        row->words[row->count++] = line->words[i];
}

static void split_words(char *text, struct matrix_row *ret)
{
    ret->count = 0;
    for (char *word = strsep(&text, " \t"); word && ret->count < MATRIX_WORDS_MAX;
         word = strsep(&text, " \t"))
        if (*word)
            ret->words[ret->count++] = word;
}

static int matrix_read_head(struct matrix *matrix, struct gt_err **err)
{
    const struct matrix_row *head = &matrix->head;
    unsigned at = 0;
    for (; at < head->count && numbered(head->words[at], "GPU") >= 0; at++)
        if (numbered(head->words[at], "GPU") != (int)at)
            return gt_fail(err, EINVAL, "%s: columns: %s where GPU%u is expected", matrix->source,
                           head->words[at], at);
    if (at > GT_GPUS_MAX)
        return gt_fail(err, E2BIG, "%s: %u GPUs, the limit is %d", matrix->source, at, GT_GPUS_MAX);
    matrix->gpus = at;
    static const char *const ends[] = {"Node", "CPU", "NUMA", "GPU"};
    for (; at < head->count; at++) {
        bool is_end = false;
        for (unsigned i = 0; i < GT_COUNT(ends); i++)
            is_end |= strcmp(head->words[at], ends[i]) == 0;
        if (is_end)
            break;
        matrix->nics++;
    }
    if (matrix->nics > GT_NICS_MAX)
        return gt_fail(err, E2BIG, "%s: %u NICs, the limit is %d", matrix->source, matrix->nics, GT_NICS_MAX);
    for (; at < head->count && matrix->affinity_count < AFFINITIES_MAX; at++) {
        const char *word = head->words[at];
        bool is_gpus_numa = strcmp(word, "GPU") == 0; /* "GPU NUMA ID" */
        if (is_gpus_numa)
            matrix->affinities[matrix->affinity_count++] = AFFINITY_OTHER;
        else if (strcmp(word, "Node") == 0 || strcmp(word, "NUMA") == 0)
            matrix->affinities[matrix->affinity_count++] = AFFINITY_NUMA;
        else if (strcmp(word, "CPU") == 0)
            matrix->affinities[matrix->affinity_count++] = AFFINITY_CPUS;
        at += is_gpus_numa && at + 1 < head->count;
    }
    matrix->rows = calloc(matrix->gpus, sizeof(*matrix->rows));
    return matrix->rows ? 0 : gt_fail_sys(err, ENOMEM, "%s", matrix->source);
}

static bool ends_with_colon(const char *word)
{
    return word[strlen(word) - 1] == ':';
}

/* "NIC0: mlx5_0" */
static void read_legend(struct matrix *matrix, const struct matrix_row *line)
{
    if (line->count != 2 || !ends_with_colon(line->words[0]))
        return;
    line->words[0][strlen(line->words[0]) - 1] = '\0';
    for (unsigned i = 0; i < matrix->nics; i++)
        if (strcmp(matrix->head.words[matrix->gpus + i], line->words[0]) == 0)
            matrix->nic_names[i] = line->words[1];
}

/* The row that a line begins; NULL: none. A NIC's is read into `other`: the GPUs' rows say the same. */
static struct matrix_row *row_begun(struct matrix *matrix, const char *name, struct matrix_row *other)
{
    int gpu = numbered(name, "GPU");
    struct matrix_row *row = NULL;
    if (gpu >= 0 && (unsigned)gpu < matrix->gpus)
        row = &matrix->rows[gpu];
    for (unsigned i = 0; i < matrix->nics && !row; i++)
        if (strcmp(matrix->head.words[matrix->gpus + i], name) == 0)
            row = other;
    if (row)
        row->count = 0;
    return row;
}

static int read_lines(struct matrix *matrix, char *text, struct gt_err **err)
{
    enum { BEFORE, NAMES, ROWS, LEGEND } state = BEFORE;
    struct matrix_row line, other = {0}, *row = NULL;
    for (char *at = strsep(&text, "\n"); at; at = strsep(&text, "\n")) {
        split_words(at, &line);
        if (!line.count)
            continue;
        const char *first = line.words[0];
        if (state == BEFORE && strcmp(first, "GPU0") == 0)
            state = NAMES;
        else if (state == NAMES && strcmp(first, "GPU0") == 0 && GT_HAS_TEXT(line.words, line.count, "X")) {
            GT_TRY(matrix_read_head(matrix, err));
            state = ROWS;
        } else if (state == ROWS && ends_with_colon(line.words[line.count - 1])) /* "Legend:" */
            state = LEGEND;
        if (state == NAMES)
            add_words(&matrix->head, &line);
        else if (state == LEGEND)
            read_legend(matrix, &line);
        else if (state == ROWS) {
            struct matrix_row *begun = row_begun(matrix, first, &other);
            row = begun ? begun : row;
            add_words(row, &line);
        }
    }
    if (state == BEFORE || state == NAMES)
        return gt_fail(err, EINVAL, "%s: no matrix: a line of names that begins with GPU0, and rows below it",
                       matrix->source);
    return 0;
}

/* "NV12": so many of NVIDIA's links. "MX!": a link that is down, as gputopo shows it. A cell of another name
 * is unknown, and said so. */
static void read_cell(struct gt_node *node, const char *word, struct gt_link *ret)
{
    int links = numbered(word, "NV");
    ret->kind = GT_LINK_UNKNOWN;
    if (links > 0) {
        ret->kind = GT_LINK_MX;
        ret->ports = (unsigned)links;
    } else if (strcmp(word, "MX!") == 0) {
        ret->kind = GT_LINK_MX;
        ret->state = GT_LINK_STATE_DOWN;
    } else if (!gt_link_kind_by_name(word, &ret->kind)) {
        char what[32];
        snprintf(what, sizeof(what), "cells \"%.16s\"", word);
        gt_node_missing(node, what, "no name of a connection that is known here; read as NA");
    }
}

/* Every row has a cell for every GPU, and two rows say the same of the pair that they tell of. */
static int check_rows(const struct matrix *matrix, struct gt_err **err)
{
    const char *source = matrix->source;
    for (unsigned b = 0; b < matrix->gpus; b++) {
        const struct matrix_row *row = &matrix->rows[b];
        if (row->count < matrix->gpus + 1)
            return row->count ? gt_fail(err, EINVAL, "%s: row GPU%u has cells for %u of %u GPUs", source, b,
                                        row->count - 1, matrix->gpus)
                              : gt_fail(err, EINVAL, "%s: there is no row GPU%u", source, b);
        if (strcmp(row->words[b + 1], "X") != 0)
            return gt_fail(err, EINVAL, "%s: row GPU%u: %.16s of itself, X is expected", source, b,
                           row->words[b + 1]);
        for (unsigned a = 0; a < b; a++) {
            const char *said = row->words[a + 1], *other = matrix->rows[a].words[b + 1];
            if (strcmp(said, other) != 0 || strcmp(said, "X") == 0)
                return gt_fail(err, EINVAL, "%s: row GPU%u says %.16s of GPU%u, and row GPU%u %.16s of GPU%u",
                               source, a, other, b, b, said, a);
        }
    }
    return 0;
}

static void read_affinities(const struct matrix *matrix, unsigned index, struct gt_gpu *gpu)
{
    const struct matrix_row *row = &matrix->rows[index];
    for (unsigned i = 0; i < matrix->affinity_count; i++) {
        unsigned at = 1 + matrix->gpus + matrix->nics + i;
        uint64_t number;
        if (at >= row->count)
            return;
        if (matrix->affinities[i] == AFFINITY_NUMA && gt_text_to_unsigned(row->words[at], 1023, &number))
            gpu->numa_node = (int)number;
        else if (matrix->affinities[i] == AFFINITY_CPUS && isdigit((unsigned char)row->words[at][0]))
            gt_text_copy(gpu->cpu_set, sizeof(gpu->cpu_set), row->words[at]);
    }
}

/* The NICs whose cells were cut off are left out. */
static unsigned nics_told(const struct matrix *matrix)
{
    unsigned told = matrix->nics;
    for (unsigned i = 0; i < matrix->gpus; i++) {
        unsigned cells = matrix->rows[i].count - 1 - matrix->gpus;
        told = told < cells ? told : cells;
    }
    return told;
}

static void read_nics(const struct matrix *matrix, struct gt_node *node)
{
    for (unsigned i = 0; i < node->nic_count; i++) {
        const char *name = matrix->nic_names[i];
        gt_text_cut(node->nics[i].name, sizeof(node->nics[i].name),
                    name ? name : matrix->head.words[matrix->gpus + i]);
        for (unsigned gpu = 0; gpu < matrix->gpus; gpu++) {
            struct gt_link cell = {0};
            read_cell(node, matrix->rows[gpu].words[1 + matrix->gpus + i], &cell);
            node->nics[i].kind[gpu] = cell.kind;
        }
    }
}

static int matrix_make_node(const struct matrix *matrix, const char *name, struct gt_node **ret,
                            struct gt_err **err)
{
    gt_auto_node struct gt_node *node = NULL;
    unsigned nics = nics_told(matrix);
    GT_TRY(gt_node_new(matrix->gpus, nics, &node, err));
    for (unsigned i = 0; i < node->link_count; i++)
        read_cell(node, matrix->rows[node->links[i].a].words[node->links[i].b + 1], &node->links[i]);
    for (unsigned i = 0; i < matrix->gpus; i++) {
        snprintf(node->gpus[i].bdf, sizeof(node->gpus[i].bdf), "ffff:%02x:00.0", i);
        read_affinities(matrix, i, &node->gpus[i]);
    }
    read_nics(matrix, node);
    if (name)
        gt_text_cut(node->name, sizeof(node->name), name);
    gt_node_missing(node, "PCI addresses", "a matrix has none: ffff:00:00.0 stands for GPU 0, and so on");
    gt_node_missing(node, "bandwidth of direct links",
                    "a matrix has none: a link counts as one port, 64 GB/s");
    if (nics < matrix->nics)
        gt_node_missing(node, "NICs", "the cells of %u of %u are cut off", matrix->nics - nics, matrix->nics);
    int r = gt_node_finish(node, err);
    if (r < 0)
        return gt_wrap(err, "%s", matrix->source);
    *ret = gt_steal(node);
    return 0;
}

int gt_matrix_read(char *text, const char *source, const char *name, struct gt_node **ret,
                   struct gt_err **err)
{
    struct matrix matrix = {.source = source};
    drop_escapes(text);
    int r = read_lines(&matrix, text, err);
    if (r >= 0)
        r = check_rows(&matrix, err);
    if (r >= 0)
        r = matrix_make_node(&matrix, name, ret, err);
    free(matrix.rows);
    return r;
}
