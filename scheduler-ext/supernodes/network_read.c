/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "scheduler-ext/supernodes/network.h"

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
    return network_begins(line, "node", ", \t") ? gt_network_read_table : NULL;
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
