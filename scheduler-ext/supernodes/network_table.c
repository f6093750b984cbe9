/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "scheduler-ext/supernodes/network.h"

/*
 *     node,leaf,spine,hall
 *     gpu-001,l1,s1,h1
 *
 * The columns behind the node are domains, each within the next one. The first is of tier 2, or of tier 1 if
 * it is named supernode, block or accelerator.
 */
enum { TABLE_COLUMNS_MAX = 32 };

struct network_table {
    struct gt_network *network;
    const char *names[TABLE_COLUMNS_MAX]; /* of columns, from the header */
    unsigned columns, first_tier;
    unsigned line;
    uint32_t *rows; /* [point]: the line that names the node */
    uint32_t rows_capacity;
    /* How often a domain is within another one: a vote for each row. */
    struct table_vote {
        uint32_t low, high, count, line;
    } * votes;
    uint32_t vote_count, vote_capacity;
};

static char *table_trim(char *text)
{
    text += strspn(text, " \t\"");
    size_t len = strlen(text);
    while (len && strchr(" \t\"", text[len - 1]))
        text[--len] = '\0';
    return text;
}

/* Splits in place; the number of fields may be larger than the array. */
static unsigned table_split(char *line, char *fields[static TABLE_COLUMNS_MAX])
{
    unsigned count = 0;
    for (char *field; (field = strsep(&line, ",")); count++)
        if (count < TABLE_COLUMNS_MAX)
            fields[count] = table_trim(field);
    return count;
}

static bool table_is_supernode(const char *name)
{
    return strcasecmp(name, "supernode") == 0 || strcasecmp(name, "block") == 0 ||
           strcasecmp(name, "accelerator") == 0;
}

static int table_header(struct network_table *table, char *line, struct gt_err **err)
{
    char *fields[TABLE_COLUMNS_MAX];
    unsigned count = table_split(line, fields);
    if (count < 2)
        return gt_fail(err, EINVAL, "the table has one column, expected a header such as node,leaf,spine");
    table->first_tier = table_is_supernode(fields[1]) ? 1 : GT_NETWORK_LEAF_TIER;
    unsigned most = 1 + GT_NETWORK_TIERS_MAX - table->first_tier + 1;
    if (count > most)
        gt_network_note(table->network, "the table has %u tiers, the %u from tier %u to %d are used",
                        count - 1, most - 1, table->first_tier, GT_NETWORK_TIERS_MAX);
    table->columns = count < most ? count : most;
    for (unsigned i = 0; i < table->columns; i++)
        table->names[i] = fields[i];
    return 0;
}

static int table_vote(struct network_table *table, uint32_t low, uint32_t high, struct gt_err **err)
{
    GT_NEED(GT_GROW(table->votes, table->vote_count, table->vote_capacity, 256), err, "network");
    table->votes[table->vote_count++] = (struct table_vote){low, high, 1, table->line};
    return 0;
}

/* False: the node has a row already, or no memory. */
static bool table_is_new(struct network_table *table, uint32_t node)
{
    if (node >= table->rows_capacity) {
        uint32_t capacity = node + 1024;
        uint32_t *more = reallocarray(table->rows, capacity, sizeof(*more));
        if (!more)
            return false;
        memset(more + table->rows_capacity, 0, (capacity - table->rows_capacity) * sizeof(*more));
        table->rows = more;
        table->rows_capacity = capacity;
    }
    if (table->rows[node]) {
        gt_network_note(table->network, "line %u: node %s is in line %u already, which counts", table->line,
                        table->network->points[node].key, table->rows[node]);
        return false;
    }
    table->rows[node] = table->line;
    return true;
}

static int table_row(struct network_table *table, char *line, struct gt_err **err)
{
    char *fields[TABLE_COLUMNS_MAX] = {0};
    unsigned count = table_split(line, fields);
    uint32_t low, high;
    if (count < table->columns) {
        gt_network_note(table->network, "line %u: %u fields, expected %u: is the table complete?",
                        table->line, count, table->columns);
        return 0;
    }
    if (!*fields[0]) {
        gt_network_note(table->network, "line %u: the node has no name", table->line);
        return 0;
    }
    GT_TRY(gt_network_node(table->network, fields[0], &low, err));
    if (!table_is_new(table, low))
        return 0;
    for (unsigned i = 1; i < table->columns; i++) {
        if (!*fields[i]) {
            gt_network_note(table->network, "line %u: the %s of node %s has no name", table->line,
                            table->names[i], fields[0]);
            continue;
        }
        GT_TRY(
            gt_network_switch(table->network, table->first_tier + i - 1, fields[i], fields[i], &high, err));
        GT_TRY(table_vote(table, low, high, err));
        low = high;
    }
    return 0;
}

static int table_compare_votes(const void *a, const void *b)
{
    const struct table_vote *x = a, *y = b;
    GT_BY(x->low, y->low);
    return x->high != y->high ? (x->high < y->high ? -1 : 1) : (x->line > y->line) - (x->line < y->line);
}

static uint32_t table_count_votes(struct network_table *table)
{
    uint32_t count = 0;
    if (table->vote_count)
        qsort(table->votes, table->vote_count, sizeof(*table->votes), table_compare_votes);
    for (uint32_t i = 0; i < table->vote_count; i++) {
        struct table_vote *last = count ? &table->votes[count - 1] : NULL;
        if (last && last->low == table->votes[i].low && last->high == table->votes[i].high)
            last->count++;
        else
            table->votes[count++] = table->votes[i];
    }
    return count;
}

/* A domain is within the one that most rows say; of equals within the first. */
static int table_connect(struct network_table *table, struct gt_err **err)
{
    struct gt_network *network = table->network;
    uint32_t count = table_count_votes(table);
    for (uint32_t first = 0, end; first < count; first = end) {
        uint32_t best = first;
        for (end = first; end < count && table->votes[end].low == table->votes[first].low; end++)
            if (table->votes[end].count > table->votes[best].count ||
                (table->votes[end].count == table->votes[best].count &&
                 table->votes[end].line < table->votes[best].line))
                best = end;
        const struct table_vote *won = &table->votes[best];
        for (uint32_t i = first; i < end; i++)
            if (i != best)
                gt_network_note(network, "line %u: %s is in %s, but in %s by %u row%s, which counts",
                                table->votes[i].line, network->points[won->low].name,
                                network->points[table->votes[i].high].name, network->points[won->high].name,
                                won->count, won->count == 1 ? "" : "s");
        GT_TRY(gt_network_connect(network, won->low, "", won->high, "", err));
    }
    return 0;
}

static int table_read(struct network_table *table, char *text, struct gt_err **err)
{
    for (char *line; (line = gt_network_line(&text));) {
        table->line++;
        line += strspn(line, " \t");
        if (!*line || *line == '#')
            continue;
        GT_TRY(table->columns ? table_row(table, line, err) : table_header(table, line, err));
    }
    return table_connect(table, err);
}

static int read_as_table(struct gt_network *network, char *text, struct gt_err **err)
{
    struct network_table table = {.network = network};
    int r = table_read(&table, text, err);
    free(table.rows);
    free(table.votes);
    return r;
}

/* ---- which form a text has ---- */

/* Whether the line begins with the word, and ends there or goes on with one of `then`. */
static bool network_begins(const char *line, const char *word, const char *then)
{
    size_t len = strlen(word);
    return strncasecmp(line, word, len) == 0 && (!line[len] || strchr(then, line[len]));
}

typedef int network_reader(struct gt_network *network, char *text, struct gt_err **err);

/* The reader for a text whose first line that says something is this; NULL: none. */
static network_reader *network_reader_for(const char *line)
{
    static const char *const ib[] = {"vendid", "devid", "sysimgguid", "switchguid", "caguid"};
    for (unsigned i = 0; i < GT_COUNT(ib); i++)
        if (network_begins(line, ib[i], "="))
            return gt_network_read_ib;
    if (network_begins(line, "Switch", " \t") || network_begins(line, "Ca", " \t"))
        return gt_network_read_ib;
    if (network_begins(line, "SwitchName", "=") || network_begins(line, "BlockName", "="))
        return gt_network_read_slurm;
    if (line[0] == '-')
        return gt_network_read_slurm_yaml;
    return network_begins(line, "node", ", \t") ? read_as_table : NULL;
}

int gt_network_read(struct gt_network *network, const char *text, size_t len, struct gt_err **err)
{
    if (len > GT_NETWORK_TEXT_MAX)
        return gt_fail(err, E2BIG, "%zu bytes, at most %d are read", len, GT_NETWORK_TEXT_MAX);
    size_t mark = strncmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* of UTF-8, as spreadsheets write it */
    const char *line = text + mark;
    while (*line && (isspace((unsigned char)*line) || *line == '#' || strncmp(line, "---", 3) == 0))
        if (isspace((unsigned char)*line))
            line++;
        else
            line += strcspn(line, "\n");
    network_reader *reader = network_reader_for(line);
    if (!*line)
        return 0;
    if (!reader)
        return gt_fail(err, EINVAL,
                       "it begins with \"%.32s\", expected a table with the header node,leaf,..., what "
                       "ibnetdiscover prints, or Slurm's topology.conf or topology.yaml",
                       line);
    gt_auto_free char *copy = strndup(text + mark, len - mark);
    return copy ? reader(network, copy, err) : gt_fail_sys(err, ENOMEM, "network");
}
