/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/text.h"
#include "cli/check.h"
#include "cli/cli.h"
#include "topology/model/node_json.h"

struct check_node_options {
    struct cli_parse parse;
    struct cli_source source;
    const char *record; /* NULL: not given */
    struct cli_compute compute;
    bool bandwidth;
    const char *fail; /* names of checks; NULL: not given */
};

#define FAULT_DIR "/run/gputopo/faults.d"

/* The others are of the machine. */
static const char *const fail_words[] = {"all", NULL};

static const struct gt_option own_options[] = {
    CLI_FORMAT_OPTION,
    {"record", "FILE", "write a recording of this node with the checks to FILE, to send in", gt_option_text,
     GT_OPTION_FIELD(struct check_node_options, record)},
    {"compute", "COMMAND",
     "run this for each GPU ($GPUTOPO_GPU, _VENDOR_INDEX, _UUID, _BDF), and tell the agent which fail",
     gt_option_text, GT_OPTION_FIELD(struct check_node_options, compute.command)},
    {"bandwidth", NULL,
     "run the vendor's test, mxvs p2p, for each pair of GPUs that are not in use, and tell which are slow",
     gt_option_set, GT_OPTION_FIELD(struct check_node_options, bandwidth)},
    {"compute-seconds", "NUMBER", "how long a test may take for one GPU or pair (default 60)",
     gt_option_number, GT_OPTION_FIELD(struct check_node_options, compute.seconds), .min = 1, .max = 3600},
    {"fail", "NAME,...", "exit with 1 if one of these checks does not hold, or any (all)", gt_option_text,
     GT_OPTION_FIELD(struct check_node_options, fail), .words = fail_words},
    {"fault-dir", "DIR", "where the agent reads faults (default " FAULT_DIR ")", gt_option_text,
     GT_OPTION_FIELD(struct check_node_options, compute.fault_dir)},
    CLI_SOURCE_OPTIONS(struct check_node_options),
    CLI_HELP_OPTION,
};

/* ---- input ---- */

struct material {
    struct gt_node *node;
    struct gt_raw raw;
    struct gt_facts facts;
    struct gt_answers answers;
    char dev_root[PATH_MAX];
};

static void material_done(struct material *material)
{
    gt_node_unref(material->node);
    gt_raw_done(&material->raw);
    gt_facts_done(&material->facts);
    gt_answers_done(&material->answers);
}

static const char *missing_why(const struct gt_node *node, const char *what)
{
    const struct gt_missing *found = GT_FIND(node->missing, node->missing_count, what, what);
    return found ? found->why : "the vendor library was not asked";
}

/* Whether this process starts the probe, and has no capabilities, so that the probe has none either. */
static bool is_unprivileged(const struct cli_source *source)
{
    struct stat st;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
    bool socket = source->probe && stat(source->probe, &st) == 0 && S_ISSOCK(st.st_mode);
    return !source->from && !socket && syscall(SYS_capget, &header, sets) == 0 && !sets[0].effective &&
           !sets[1].effective;
}

static int inspect(struct cli_call *call, const struct cli_source *source, struct material *material,
                   struct cli_checked *ret)
{
    struct gt_err **err = call->err;
    GT_TRY(cli_source_scan(call, source, &material->node, &material->raw));
    if (!material->raw.pci)
        return gt_fail(err, EINVAL, "--from: %s: not a recording, and only that holds what is checked",
                       source->from);
    GT_TRY(
        gt_facts_from_json(material->raw.pci, strlen(material->raw.pci), "raw.pci", &material->facts, err));
    if (material->raw.vendor)
        GT_TRY(gt_answers_read(material->raw.vendor, strlen(material->raw.vendor), &material->answers, err));
    if (snprintf(material->dev_root, sizeof(material->dev_root), "%s/dev",
                 source->root ? source->root : "") >= (int)sizeof(material->dev_root))
        return gt_fail(err, ENAMETOOLONG, "--root: %s", source->root);
    *ret = (struct cli_checked){.node = material->node,
                                .facts = &material->facts,
                                .answers = material->raw.vendor ? &material->answers : NULL,
                                .no_answers = missing_why(material->node, "vendor library"),
                                .root = source->from   ? NULL
                                        : source->root ? source->root
                                                       : "",
                                .dev_root = source->from ? NULL : material->dev_root,
                                .vendor = material->facts.vendor,
                                .unprivileged = is_unprivileged(source)};
    return 0;
}

/* ---- output ---- */

static const char *const verdicts[] = {
    [CLI_UNCHECKED] = "cannot be checked here", [CLI_PASSED] = "holds", [CLI_BROKEN] = "does not hold"};

static unsigned check_node_count_of(const struct cli_checks *checks, enum cli_verdict verdict)
{
    unsigned count = 0;
    for (unsigned i = 0; i < checks->count; i++)
        count += checks->list[i].verdict == verdict;
    return count;
}

/* ": NAME, NAME", of those on the list, or of all, that do not hold. Returns how many they are. */
static unsigned name_broken(const struct cli_checks *checks, const char *list, struct gt_buf *to)
{
    bool all = strcmp(list, "all") == 0;
    unsigned count = 0;
    for (unsigned i = 0; i < checks->count; i++)
        if (checks->list[i].verdict == CLI_BROKEN && (all || gt_text_is_listed(checks->list[i].name, list)))
            gt_buf_printf(to, "%s%s", count++ ? ", " : ": ", checks->list[i].name);
    return count;
}

/* --fail. A name that is wrong must not let a node pass. */
static int fail_if_broken(const struct cli_checks *checks, const char *list, struct gt_err **err)
{
    char name[64];
    for (const char *at = strcmp(list, "all") == 0 ? NULL : list; at;)
        if (!gt_text_next_listed(&at, name, sizeof(name)) ||
            !GT_FIND(checks->list, checks->count, name, name))
            return gt_fail(err, EINVAL, "--fail: there is no check '%s' here", name);
    gt_auto_buf struct gt_buf names = GT_BUF(CLI_OUTPUT_MAX);
    unsigned broken = name_broken(checks, list, &names);
    return broken ? gt_fail(err, EINVAL, "%u of %u checks do not hold%s", broken, checks->count,
                            names.data ? names.data : "")
                  : 0;
}

static void print_text(const struct gt_node *node, const struct cli_checks *checks, struct gt_buf *to)
{
    gt_buf_printf(to, "%u GPU%s", node->gpu_count, node->gpu_count == 1 ? "" : "s");
    if (node->driver_version[0])
        gt_buf_printf(to, ", driver %s", node->driver_version);
    if (node->library_version[0])
        gt_buf_printf(to, ", library %s", node->library_version);
    gt_buf_puts(to, "\n\n");
    for (unsigned i = 0; i < checks->count; i++) {
        const struct cli_check *check = &checks->list[i];
        gt_buf_printf(to, "%-24s%s", check->name, verdicts[check->verdict]);
        if (check->verdict == CLI_UNCHECKED)
            gt_buf_printf(to, " (%s)", check->why);
        gt_buf_printf(to, "\n    assumed  %s\n", check->assumed);
        if (check->found[0])
            gt_buf_printf(to, "    found    %s\n", check->found);
    }
    unsigned broken = check_node_count_of(checks, CLI_BROKEN);
    gt_buf_printf(to, "\n%u checks: %u hold, %u cannot be checked here, %u %s not hold", checks->count,
                  check_node_count_of(checks, CLI_PASSED), check_node_count_of(checks, CLI_UNCHECKED), broken,
                  broken == 1 ? "does" : "do");
    name_broken(checks, "all", to);
    gt_buf_puts(to, "\n");
}

/* The members of a JSON object (NULL: none) and the checks. */
static int print_with_checks(const cJSON *object, const struct cli_checks *checks, struct gt_buf *to,
                             struct gt_err **err)
{
    gt_auto_buf struct gt_buf text = GT_BUF(GT_JSON_MAX);
    const cJSON *member;
    gt_json_begin(&text, NULL, '{');
    cJSON_ArrayForEach(member, object) gt_json_add_tree(&text, member->string, member);
    gt_json_begin(&text, "checks", '[');
    for (unsigned i = 0; i < checks->count; i++) {
        const struct cli_check *check = &checks->list[i];
        gt_json_printf(&text, "{'name': %s, 'assumed': %s, 'verdict': %s, ?'found': %s, ?'why': %s}",
                       check->name, check->assumed, verdicts[check->verdict], check->found,
                       check->verdict == CLI_UNCHECKED ? check->why : "");
    }
    gt_buf_puts(&text, "]}");
    gt_json_indent(&text, to);
    return gt_buf_check(to, "checks", err);
}

static int write_recording(struct cli_call *call, const char *path, const struct material *material,
                           const struct cli_checks *checks)
{
    gt_auto_free char *text = NULL;
    gt_auto_buf struct gt_buf whole = GT_BUF(GT_JSON_MAX);
    gt_auto_json cJSON *json = NULL;
    GT_TRY(gt_recording_make(material->node, &material->raw, &text, call->err));
    GT_TRY(gt_json_parse(text, strlen(text), "recording", &json, call->err));
    GT_TRY(print_with_checks(json, checks, &whole, call->err));
    return cli_write_file(call, path, whole.data);
}

static void check_node_values(const struct cli_checked *checked, const struct cli_check_rule *rule,
                              struct cli_check *check)
{
    const struct gt_answer *answer;
    struct cli_tally values = {0};
    unsigned at = 0;
    bool sane = true;
    while ((answer = cli_check_value(checked, rule->call, &at))) {
        int64_t value = -1;
        sane = gt_json_is_int(answer->value, &value) && value >= rule->low && value <= rule->high && sane;
        cli_tally_add(&values, "%s%lld", rule->word, (long long)value);
    }
    cli_check_found_tally(check, "", &values);
    cli_check_evaluate(check, sane);
}

static void check_node_judge(const struct cli_checked *checked, const struct cli_check_rule *rule,
                             struct cli_check *check)
{
    if (rule->needs == CLI_CHECK_GPUS && !cli_check_has_gpus(checked, check))
        return;
    if (rule->call && !cli_check_answered(checked, rule->call, check))
        return;
    if (rule->needs == CLI_CHECK_MACHINE && !checked->root)
        cli_check_cannot(check, "that is not in a recording");
    else if (rule->judge)
        rule->judge(checked, check);
    else
        check_node_values(checked, rule, check);
}

static void check_node_all(const struct cli_checked *checked, struct cli_checks *to)
{
    const struct cli_check_rule *const tables[] = {cli_check_kernel,   cli_check_host,  cli_check_library,
                                                   cli_check_identity, cli_check_links, cli_check_health};
    for (size_t i = 0; i < GT_COUNT(tables); i++)
        for (const struct cli_check_rule *rule = tables[i]; rule->name; rule++)
            check_node_judge(checked, rule, cli_check_add(to, rule->name, rule->assumed));
}

static int check_node_run(struct cli_call *call)
{
    const struct check_node_options *options = call->options;
    __attribute__((cleanup(material_done))) struct material material = {0};
    gt_auto_err struct gt_err *failure = NULL;
    struct cli_checked checked;
    struct cli_checks checks = {0};
    const char *live = options->record            ? "--record"
                       : options->compute.command ? "--compute"
                       : options->bandwidth       ? "--bandwidth"
                                                  : NULL;
    if (options->source.from && live)
        return cli_misuse(call, "%s: not together with --from", live);
    if (options->record && strcmp(options->record, "-") == 0 && options->parse.format != CLI_TEXT)
        return cli_misuse(call, "--record: - and -o %s would print two things in one",
                          cli_formats[options->parse.format]);
    GT_TRY(inspect(call, &options->source, &material, &checked));
    if (checked.dev_root)
        gt_device_nodes_all(checked.dev_root, checked.node, &checked.nodes);
    check_node_all(&checked, &checks);
    int r = options->compute.command ? cli_check_compute(&checked, &options->compute, &checks, &failure) : 0;
    if (r >= 0 && options->bandwidth)
        r = cli_check_bandwidth(&checked, &options->compute, &checks, &failure);
    if (options->record)
        GT_TRY(write_recording(call, options->record, &material, &checks));
    if (options->parse.format == CLI_TEXT)
        print_text(material.node, &checks, call->text);
    else
        GT_TRY(print_with_checks(NULL, &checks, call->text, call->err));
    call->always_prints = true;
    if (r >= 0 && options->fail)
        r = fail_if_broken(&checks, options->fail, &failure);
    if (r < 0)
        *call->err = gt_steal(failure);
    return r;
}

const struct cli_verb cli_check_node = {
    .name = "check-node",
    .about = "check what is taken for granted about GPUs, driver and library",
    .command =
        {.about =
             "Check what gputopo takes for granted about GPUs, driver and vendor library, and print what "
             "holds on this node. It only reads, unless --compute or --bandwidth is given.",
         .more = "Example: gputopo check-node --fail all",
         CLI_OPTIONS(own_options)},
    .options_size = sizeof(struct check_node_options),
    .defaults = &(const struct check_node_options){.compute = {.fault_dir = FAULT_DIR, .seconds = 60}},
    .run = check_node_run};
