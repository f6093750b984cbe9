/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/buf.h"
#include "base/json_get.h"
#include "base/text.h"
#include "cli/check.h"

/* MetaXLink: numbers and counts of links, and whether the library's answers agree with each other. */

enum { CHECK_LEVEL_MX = 5, CHECK_LEVEL_SYS = 6, PORT_UP = 1, PORT_STATES = 5, NO_PEER = 2 };

static const char remote_call[] = "mxSmlGetMetaXLinkRemoteInfo";
static const char level_call[] = "mxSmlGetDeviceTopology";
static const char state_call[] = "mxSmlGetMetaXLinkPortState";
static const char speed_call[] = "mxSmlGetMetaXLinkInfo";

/* The library's answers about links, by its numbers. */
struct links_said {
    unsigned char level[GT_VENDOR_DEVICES][GT_VENDOR_DEVICES]; /* 255: not reported */
    unsigned char links[GT_VENDOR_DEVICES][GT_VENDOR_DEVICES]; /* from the first to the second */
    unsigned char all_links[GT_VENDOR_DEVICES];                /* links of a GPU, also to other servers */
    unsigned there, empty, refused;                            /* masks of link numbers */
    unsigned elsewhere; /* links to devices that are no GPUs of this node */
};

/* The GPU that an answer names as the other end; -1: no GPU of this node. */
static int check_links_peer_of(const struct cli_checked *checked, const struct gt_answer *answer)
{
    int64_t device = -1;
    char bdf[GT_BDF_SIZE];
    if (!gt_json_is_int(gt_get(answer->value, "deviceId"), &device) || device < 0 ||
        device >= GT_VENDOR_DEVICES)
        return -1;
    int gpu = cli_check_gpu(checked, (unsigned)device);
    return gpu >= 0 && gt_answer_bdf(answer, bdf) && strcmp(bdf, checked->node->gpus[gpu].bdf) == 0
               ? (int)device
               : -1;
}

static const struct links_said *links_listen(const struct cli_checked *checked)
{
    static struct links_said the_last;
    struct links_said *said = &the_last;
    const struct gt_answer *answer;
    unsigned at = 0;
    memset(said, 0, sizeof(*said));
    memset(said->level, 255, sizeof(said->level));
    while ((answer = cli_check_next(checked, level_call, &at))) {
        uint64_t level;
        if (answer->value && answer->arg_count == 2 && answer->args[0] < GT_VENDOR_DEVICES &&
            answer->args[1] < GT_VENDOR_DEVICES && gt_json_is_unsigned(answer->value, 254, &level))
            said->level[answer->args[0]][answer->args[1]] = (unsigned char)level;
    }
    for (at = 0; (answer = cli_check_next(checked, remote_call, &at));) {
        if (answer->arg_count != 2 || answer->args[0] >= GT_VENDOR_DEVICES ||
            answer->args[1] >= GT_VENDOR_LINK_NUMBERS || answer->why)
            continue;
        unsigned bit = 1u << answer->args[1];
        if (answer->code)
            *(answer->code == NO_PEER ? &said->empty : &said->refused) |= bit;
        if (!answer->value)
            continue;
        said->there |= bit;
        said->all_links[answer->args[0]]++;
        int peer = check_links_peer_of(checked, answer);
        if (peer < 0)
            said->elsewhere++;
        else
            said->links[answer->args[0]][peer]++;
    }
    return said;
}

static void check_levels(const struct cli_checked *checked, struct cli_check *check)
{
    const struct links_said *said = links_listen(checked);
    struct cli_tally levels = {0};
    unsigned differ = 0;
    bool known = true;
    for (unsigned a = 0; a < GT_VENDOR_DEVICES; a++)
        for (unsigned b = a + 1; b < GT_VENDOR_DEVICES; b++) {
            if (said->level[a][b] == 255 && said->level[b][a] == 255)
                continue;
            cli_tally_add(&levels, "level %u", said->level[a][b]);
            known = known && said->level[a][b] <= CHECK_LEVEL_SYS;
            differ += said->level[a][b] != said->level[b][a];
        }
    cli_check_found_tally(check, "", &levels);
    if (differ)
        cli_check_found(check, "%u pairs differ in their two directions", differ);
    cli_check_evaluate(check, known && !differ);
}

static void found_numbers(struct cli_check *check, const char *before, unsigned mask)
{
    gt_auto_buf struct gt_buf list = GT_BUF(64);
    gt_text_add_mask(&list, mask);
    if (mask && list.data)
        cli_check_found(check, "%s %s", before, list.data);
}

static void check_numbers(const struct cli_checked *checked, struct cli_check *check)
{
    const struct links_said *said = links_listen(checked);
    if (!checked->answers || !(said->there | said->empty | said->refused)) {
        cli_check_answered(checked, remote_call, check);
        return;
    }
    unsigned first = 1, last = 1u << (GT_VENDOR_LINK_NUMBERS - 1);
    bool from_0 = said->there & first || (said->refused & last && !(said->refused & first));
    bool from_1 = said->there & last || (said->refused & first && !(said->refused & last));
    found_numbers(check, "a GPU at", said->there);
    found_numbers(check, "code 2 at", said->empty);
    found_numbers(check, "refused at", said->refused);
    if (from_0 != from_1) {
        cli_check_found(check, "so they begin at %d", from_0 ? 0 : 1);
        cli_check_evaluate(check, true);
    } else if (from_0)
        cli_check_evaluate(check, false);
    else
        cli_check_cannot(check, "nothing is at 0 or 7, and neither is refused alone");
}

/* Pairs of devices, of which so many are linked. */
struct links_pairs {
    unsigned linked, one_sided, disagree;
};

static struct links_pairs links_count(const struct links_said *said)
{
    struct links_pairs pairs = {0};
    for (unsigned a = 0; a < GT_VENDOR_DEVICES; a++)
        for (unsigned b = a + 1; b < GT_VENDOR_DEVICES; b++) {
            bool linked = said->links[a][b] || said->links[b][a];
            pairs.linked += linked;
            pairs.one_sided += said->links[a][b] != said->links[b][a];
            pairs.disagree += said->level[a][b] != 255 && linked != (said->level[a][b] == CHECK_LEVEL_MX);
        }
    return pairs;
}

/* Whether there are answers about links; else the check says why not. */
static bool links_are_known(const struct cli_checked *checked, const struct links_said *said,
                            struct cli_check *check)
{
    bool known = cli_check_answered(checked, remote_call, check);
    if (!known && said->empty)
        cli_check_cannot(check, "no GPU has a link");
    return known;
}

static void check_ends(const struct cli_checked *checked, struct cli_check *check)
{
    const struct links_said *said = links_listen(checked);
    struct links_pairs pairs = links_count(said);
    if (!links_are_known(checked, said, check))
        return;
    cli_check_found(check, "%u pairs are linked, %u of them differ at their two ends", pairs.linked,
                    pairs.one_sided);
    cli_check_evaluate(check, !pairs.one_sided);
}

static void check_links_and_levels(const struct cli_checked *checked, struct cli_check *check)
{
    const struct links_said *said = links_listen(checked);
    struct links_pairs pairs = links_count(said);
    if (!links_are_known(checked, said, check))
        return;
    cli_check_found(check, "%u pairs disagree", pairs.disagree);
    cli_check_evaluate(check, !pairs.disagree);
}

static void check_far_links(const struct cli_checked *checked, struct cli_check *check)
{
    const struct links_said *said = links_listen(checked);
    if (!links_are_known(checked, said, check))
        return;
    cli_check_found(check, "%u links lead to what is no GPU of this node", said->elsewhere);
    cli_check_cannot(check, said->elsewhere ? "what such a link names is not published; the recording has it"
                                            : "no link leads to another server");
}

static void check_port_states(const struct cli_checked *checked, struct cli_check *check)
{
    const struct links_said *said = links_listen(checked);
    const struct gt_answer *answer;
    struct cli_tally states = {0};
    unsigned at = 0, others = 0;
    bool sane = true;
    while ((answer = cli_check_value(checked, state_call, &at))) {
        unsigned up = 0;
        if (!answer->arg_count || answer->args[0] >= GT_VENDOR_DEVICES)
            continue;
        sane = sane && cJSON_GetArraySize(answer->value) == GT_VENDOR_PORTS;
        for (const cJSON *item = gt_first(answer->value); item; item = item->next) {
            uint64_t state;
            bool known = gt_json_is_unsigned(item, PORT_STATES, &state);
            sane = sane && known;
            up += known && state == PORT_UP;
            if (known)
                cli_tally_add(&states, "state %llu", (unsigned long long)state);
            else
                cli_tally_add(&states, "no state");
        }
        others += up != said->all_links[answer->args[0]];
    }
    cli_check_found_tally(check, "", &states);
    if (others)
        cli_check_found(check, "%u GPUs have another number of ports up than of links", others);
    cli_check_evaluate(check, sane && !others);
}

static void check_port_speed(const struct cli_checked *checked, struct cli_check *check)
{
    const struct gt_answer *answer;
    struct cli_tally links = {0};
    unsigned at = 0;
    bool usual = true;
    while ((answer = cli_check_next(checked, speed_call, &at))) {
        for (const cJSON *item = gt_first(answer->value); item; item = item->next) {
            const cJSON *speed = gt_get(item, "speed"), *width = gt_get(item, "width");
            double s = cJSON_IsNumber(speed) ? speed->valuedouble : -1,
                   w = cJSON_IsNumber(width) ? width->valuedouble : -1;
            cli_tally_add(&links, "%g GT/s x%g", s, w);
            usual = usual && ((s == 0 && w == 0) || (w == 16 && (s == 32 || s == 2.5)));
        }
    }
    cli_check_found_tally(check, "", &links);
    cli_check_evaluate(check, usual);
}

static void check_link_bandwidth(const struct cli_checked *checked, struct cli_check *check)
{
    (void)checked;
    cli_check_cannot(
        check, "no bandwidth is published and none is measured here; the vendor's own test measures it");
}

static void check_servers(const struct cli_checked *checked, struct cli_check *check)
{
    unsigned at = 0;
    const struct gt_answer *answer = cli_check_next(checked, "mxSmlGetLocalAndMultipleRemoteUuid", &at);
    if (answer && answer->value) {
        uint64_t count = 0;
        const cJSON *remotes = gt_get(answer->value, "remotes");
        bool reported = gt_json_is_unsigned(gt_get(answer->value, "count"), UINT32_MAX, &count);
        cli_check_found(check, "own %s; %llu counted, %u believed",
                        checked->node->server_uuid[0] ? checked->node->server_uuid : "none",
                        (unsigned long long)count, checked->node->remote_count);
        cli_check_evaluate(check, reported && count == (uint64_t)cJSON_GetArraySize(remotes) &&
                                      checked->node->server_uuid[0]);
    } else if (checked->node->server_uuid[0]) {
        cli_check_found(check, "own %s, by mxSmlGetLocalAndRemoteUuid", checked->node->server_uuid);
        cli_check_evaluate(check, true);
    } else
        cli_check_answered(checked, "mxSmlGetLocalAndMultipleRemoteUuid", check);
}

static void check_link_places(const struct cli_checked *checked, struct cli_check *check)
{
    const struct gt_answer *answer;
    struct cli_tally places = {0};
    for (unsigned at = 0; (answer = cli_check_next(checked, "mxSmlGetMetaXLinkTopo", &at));) {
        uint64_t id = 0, socket = 0;
        if (answer->value && gt_json_is_unsigned(gt_get(answer->value, "topologyId"), UINT32_MAX, &id) &&
            gt_json_is_unsigned(gt_get(answer->value, "socketId"), UINT32_MAX, &socket))
            cli_tally_add(&places, "topology %llu socket %llu", (unsigned long long)id,
                          (unsigned long long)socket);
    }
    cli_check_found_tally(check, "", &places);
    cli_check_cannot(check, "it is not published, and nothing is made of it");
}

const struct cli_check_rule cli_check_links[] = {
    {"topology-levels",
     "levels are 0 to 6, the same in both directions; 5 is MetaXLink, 6 the way between NUMA nodes",
     .judge = check_levels, .call = level_call},
    {"link-numbers", "a GPU has seven links, numbered 0 to 6 or 1 to 7; code 2 is nothing on that port",
     .judge = check_numbers},
    {"remote-ends", "both ends of a link name each other, by number and PCI address", .judge = check_ends},
    {"links-and-levels", "a pair has links exactly where its level is 5", .judge = check_links_and_levels},
    {"links-to-other-servers", "what a link to another server names is distinct from this server's GPUs",
     .judge = check_far_links},
    {"port-states", "seven states of a port each, 0 to 5; as many are 1 (up) as a GPU has links",
     .judge = check_port_states, .call = state_call},
    {"port-speed", "a port in use has 16 lanes at 32 (or 2.5) GT/s, one that is not has 0 of both",
     .judge = check_port_speed, .call = speed_call},
    {"link-bandwidth", "a link of one port moves 64 GB/s in one direction", .judge = check_link_bandwidth},
    {"server-uuids",
     "the own server and those that MetaXLink reaches have UUIDs, and as many are named as counted",
     .judge = check_servers},
    {"link-topology", "what topologyId, socketId and dieId mean across servers", .judge = check_link_places,
     .call = "mxSmlGetMetaXLinkTopo"},
    {.name = NULL},
};
