/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "topology/discovery/backends.h"

/*
 * The matrix of `mx-smi topo -m` and `-n`, of `nvidia-smi topo -m`, and of `gputopo show`: a line of column
 * names, a row for each GPU and NIC, legends. Words are all that counts, so lines that a terminal has wrapped
 * are read, too: a word belongs to the row that was begun last, and one that a line's end has split goes on
 * in the next line.
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
    const char *lost_nic;          /* of a row or the legend, without a column */
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

/* How long a mail's mark of a quotation is, at the begin of a line. */
static size_t quote_mark(const char *line)
{
    size_t blanks = strspn(line, " ");
    return line[blanks] != '>' ? 0 : blanks + 1 + (line[blanks + 1] == ' ');
}

/* Leaves out what people paste with a matrix: terminals' colours, marks of quotations, lines of Markdown's
 * tables. A no-break space is a space. */
static void clean_text(char *text)
{
    char *to = text;
    const char *begin = text;
    while (*text) {
        size_t mark = to == begin || to[-1] == '\n' ? quote_mark(text) : 0;
        if (text[0] == '\033' && text[1] == '[') {
            text += 2;
            while (*text && !isalpha((unsigned char)*text))
                text++;
            text += *text != '\0';
        } else if (mark || *text == '\r') {
            text += mark ? mark : 1;
        } else if (strncmp(text, "\u00a0", 2) == 0) {
            *to++ = ' ';
            text += 2;
        } else {
            *to++ = *text == '|' ? ' ' : *text;
            text++;
        }
    }
    *to = '\0';
}

static size_t line_width(const char *line)
{
    size_t width = 0;
    for (; *line && *line != '\n'; line++)
        if (*line == '\t')
            width += 8 - width % 8;
        else
            width += ((unsigned char)*line & 0xc0) != 0x80; /* UTF-8 counts by character */
    return width;
}

/* The longest line of the matrix. If its lines were wrapped, those that were are this long, unless blanks at
 * their end were dropped. */
static size_t wrap_width(const char *text)
{
    size_t longest = 0, ret = 0;
    bool has_begun = false;
    for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
        const char *word = text + strspn(text, " \t");
        bool is_row = strncmp(word, "GPU", 3) == 0 && isdigit((unsigned char)word[3]);
        has_begun |= is_row;
        size_t width = has_begun ? line_width(text) : 0;
        longest = width > longest ? width : longest;
        ret = is_row ? longest : ret;
    }
    return ret;
}

static bool is_matrix_word(const char *word)
{
    static const char *const names[] = {"X", "MX!", "Node", "NUMA", "CPU", "Affinity"};
    enum gt_link_kind kind;
    return GT_HAS_TEXT(names, GT_COUNT(names), word) || gt_link_kind_by_name(word, &kind) ||
           numbered(word, "GPU") >= 0 || numbered(word, "NIC") >= 0 || numbered(word, "NV") >= 0;
}

/* Whether two words, the last of a full line and the first of the next, are one. They are two where blanks at
 * the end of the full line were dropped. */
static bool are_one(const char *word, const char *next)
{
    char both[64];
    snprintf(both, sizeof(both), "%s%s", word, next);
    return !is_matrix_word(word) || is_matrix_word(both);
}

/* `goes_on`: the line before may have ended within a word. */
static void add_words(struct matrix_row *row, const struct matrix_row *line, bool goes_on)
{
    unsigned i = 0;
    char *last = goes_on && row->count ? row->words[row->count - 1] : NULL;
    if (last && are_one(last, line->words[0])) {
        memmove(last + strlen(last), line->words[0], strlen(line->words[0]) + 1); /* behind it in the text */
        i = 1;
    }
    for (; i < line->count && row->count < MATRIX_WORDS_MAX; i++)
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

/* Whether the last column has a part of a name: of a NIC, or of what is behind the NICs. */
static bool is_cut_name(const struct matrix_row *head, unsigned at)
{
    const char *name = head->words[at];
    return at == head->count - 1 &&
           (!isdigit((unsigned char)name[strlen(name) - 1]) || GT_HAS_TEXT(head->words, at, name));
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
    while (at < head->count && !GT_HAS_TEXT(ends, GT_COUNT(ends), head->words[at]) &&
           !is_cut_name(head, at)) {
        matrix->nics++;
        at++;
    }
    if (at < head->count && is_cut_name(head, at))
        matrix->lost_nic = head->words[at];
    if (matrix->nics > GT_NICS_MAX)
        return gt_fail(err, E2BIG, "%s: %u NICs, the limit is %d", matrix->source, matrix->nics, GT_NICS_MAX);
    for (; at < head->count && matrix->affinity_count < AFFINITIES_MAX; at++) {
        const char *word = head->words[at], *next = at + 1 < head->count ? head->words[at + 1] : "";
        enum affinity kind = AFFINITY_OTHER;
        if (strcmp(next, "Affinity") == 0) {
            kind = strcmp(word, "CPU") == 0                                 ? AFFINITY_CPUS
                   : strcmp(word, "Node") == 0 || strcmp(word, "NUMA") == 0 ? AFFINITY_NUMA
                                                                            : AFFINITY_OTHER;
            at++;
        } else if (strcmp(word, "GPU") == 0) /* "GPU NUMA ID" */
            at += 2;
        matrix->affinities[matrix->affinity_count++] = kind;
    }
    matrix->rows = calloc((size_t)matrix->gpus + 1, sizeof(*matrix->rows));
    return matrix->rows ? 0 : gt_fail_sys(err, ENOMEM, "%s", matrix->source);
}

static bool ends_with_colon(const char *word)
{
    return word[strlen(word) - 1] == ':';
}

/* The column of a NIC; -1: there is none. */
static int nic_by_name(struct matrix *matrix, const char *name)
{
    for (unsigned i = 0; i < matrix->nics; i++)
        if (strcmp(matrix->head.words[matrix->gpus + i], name) == 0)
            return (int)i;
    if (numbered(name, "NIC") >= 0 && !matrix->lost_nic)
        matrix->lost_nic = name;
    return -1;
}

/* "NIC0: mlx5_0" */
static void read_legend(struct matrix *matrix, const struct matrix_row *row)
{
    if (row->count != 2 || !ends_with_colon(row->words[0]))
        return;
    row->words[0][strlen(row->words[0]) - 1] = '\0';
    int nic = nic_by_name(matrix, row->words[0]);
    if (nic >= 0)
        matrix->nic_names[nic] = row->words[1];
}

/* Words of a whole row. */
static unsigned matrix_columns(const struct matrix *matrix)
{
    return 1 + matrix->gpus + matrix->nics + matrix->affinity_count;
}

/* Adds a line to a row of a GPU, *row: the one it begins, or that of the line before. NULL is one of a NIC,
 * whose cells the GPUs' rows say, too. */
static int read_row(struct matrix *matrix, const struct matrix_row *line, bool goes_on,
                    struct matrix_row **row, struct gt_err **err)
{
    const char *first = line->words[0];
    int gpu = numbered(first, "GPU");
    if (gpu >= (int)matrix->gpus)
        return gt_fail(err, EINVAL, "%s: row %s: there is no column %s: is the text cut?", matrix->source,
                       first, first);
    if (gpu >= 0) {
        *row = &matrix->rows[gpu];
        (*row)->count = 0;
        add_words(*row, line, false);
        return 0;
    }
    if (nic_by_name(matrix, first) >= 0 || numbered(first, "NIC") >= 0)
        *row = NULL;
    unsigned columns = matrix_columns(matrix);
    if (!*row || ((*row)->count >= columns && !(goes_on && !first[strspn(first, "0123456789,-")])))
        return 0; /* what follows a full row, such as a prompt */
    add_words(*row, line, goes_on);
    return (*row)->count <= columns ? 0
                                    : gt_fail(err, EINVAL, "%s: row %s has more cells than columns",
                                              matrix->source, (*row)->words[0]);
}

static int read_lines(struct matrix *matrix, char *text, struct gt_err **err)
{
    enum { BEFORE, NAMES, ROWS, LEGEND } state = BEFORE;
    struct matrix_row line, *row = NULL;
    const size_t full = wrap_width(text);
    bool is_full = false;
    for (char *at = strsep(&text, "\n"); at; at = strsep(&text, "\n")) {
        bool goes_on = is_full && !isblank((unsigned char)*at);
        is_full = *at && line_width(at) == full && !isblank((unsigned char)at[strlen(at) - 1]);
        split_words(at, &line);
        if (!line.count || !line.words[0][strspn(line.words[0], ":-=+")]) /* "|:---|---|" */
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
            add_words(&matrix->head, &line, goes_on);
        else if (state == LEGEND)
            read_legend(matrix, &line);
        else if (state == ROWS)
            GT_TRY(read_row(matrix, &line, goes_on, &row, err));
    }
    if (state == BEFORE || state == NAMES)
        return gt_fail(
            err, EINVAL,
            "%s: no matrix was found: expected a line of names that begins with GPU0, and a row for "
            "each GPU below it, as mx-smi topo -m prints them; or a recording, or hwloc's XML",
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

/* Whether a list of CPUs is one, and not the begin of one: "0-31,64-9" of "0-31,64-95". */
static bool is_cpu_list(const char *text)
{
    for (char *end;; text = end + 1) {
        unsigned long from = strtoul(text, &end, 10), to = from;
        if (isdigit((unsigned char)*text) && *end == '-' && isdigit((unsigned char)end[1]))
            to = strtoul(end + 1, &end, 10);
        if (!isdigit((unsigned char)*text) || to < from || (*end && *end != ','))
            return false;
        if (!*end)
            return true;
    }
}

static void read_affinities(const struct matrix *matrix, unsigned index, struct gt_node *node)
{
    const struct matrix_row *row = &matrix->rows[index];
    struct gt_gpu *gpu = &node->gpus[index];
    bool is_whole_row = row->count >= matrix_columns(matrix);
    for (unsigned i = 0; i < matrix->affinity_count; i++) {
        unsigned at = 1 + matrix->gpus + matrix->nics + i;
        const char *word = at < row->count ? row->words[at] : "";
        uint64_t number;
        if (matrix->affinities[i] == AFFINITY_NUMA && gt_text_to_unsigned(word, 1023, &number))
            gpu->numa_node = (int)number;
        else if (matrix->affinities[i] == AFFINITY_NUMA && !*word)
            gt_node_missing(node, "NUMA nodes", "rows are cut off");
        else if (matrix->affinities[i] == AFFINITY_CPUS && (!*word || isdigit((unsigned char)*word)) &&
                 !(is_whole_row && is_cpu_list(word) &&
                   gt_text_copy(gpu->cpu_set, sizeof(gpu->cpu_set), word)))
            gt_node_missing(node, "CPU affinity", "rows are cut off, or a list is too long");
    }
}

/* What a text without these columns, or with a part of them, does not tell. */
static void say_lost_columns(const struct matrix *matrix, struct gt_node *node)
{
    bool has[AFFINITY_OTHER + 1] = {false};
    for (unsigned i = 0; i < matrix->affinity_count; i++)
        has[matrix->affinities[i]] = true;
    if (!has[AFFINITY_NUMA])
        gt_node_missing(node, "NUMA nodes", "the text has no column of them, or it is cut off");
    if (!has[AFFINITY_CPUS])
        gt_node_missing(node, "CPU affinity", "the text has no column of it, or it is cut off");
    if (matrix->lost_nic)
        gt_node_missing(node, "NICs", "there is no whole column %s: is the text cut?", matrix->lost_nic);
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

static int read_nics(const struct matrix *matrix, struct gt_node *node, struct gt_err **err)
{
    for (unsigned i = 0; i < node->nic_count; i++) {
        const char *column = matrix->head.words[matrix->gpus + i];
        gt_text_cut(node->nics[i].name, sizeof(node->nics[i].name),
                    matrix->nic_names[i] ? matrix->nic_names[i] : column);
        for (unsigned gpu = 0; gpu < matrix->gpus; gpu++) {
            const char *word = matrix->rows[gpu].words[1 + matrix->gpus + i];
            struct gt_link cell = {0};
            read_cell(node, word, &cell);
            if (cell.kind <= GT_LINK_MX)
                return gt_fail(err, EINVAL, "%s: row GPU%u says %.16s of %s", matrix->source, gpu, word,
                               column);
            node->nics[i].kind[gpu] = cell.kind;
        }
    }
    return 0;
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
        read_affinities(matrix, i, node);
    }
    GT_TRY(read_nics(matrix, node, err));
    if (name)
        gt_text_cut(node->name, sizeof(node->name), name);
    gt_node_missing(node, "PCI addresses", "a matrix has none: ffff:00:00.0 stands for GPU 0, and so on");
    gt_node_missing(node, "bandwidth of direct links",
                    "a matrix has none: a link counts as one port, 64 GB/s");
    say_lost_columns(matrix, node);
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
    clean_text(text);
    int r = read_lines(&matrix, text, err);
    if (r >= 0)
        r = check_rows(&matrix, err);
    if (r >= 0)
        r = matrix_make_node(&matrix, name, ret, err);
    free(matrix.rows);
    return r;
}
