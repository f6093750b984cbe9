/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent.h"
#include "api/names.h"
#include "base/options.h"
#include "base/process.h"

static const char program[] = GT_AGENT_NAME;

/* HTTP, gRPC, the API server, the probe, and a scan: about 60 where all are busy. */
enum { AGENT_DESCRIPTORS = 128 };

static int agent_main_run(const void *arg, struct gt_err **err)
{
    const struct gt_agent_options *options = arg;
    return options->print_fault_table ? gt_agent_print_fault_table(options, err)
           : options->oneshot         ? gt_agent_oneshot(options, err)
                                      : gt_agent_run(options, err);
}

int main(int argc, char **argv)
{
    static struct gt_agent_options options;
    gt_auto_err struct gt_err *err = NULL;
    if (gt_agent_options_read(argc, argv, getenv("NODE_NAME"), &options, &err) < 0)
        return gt_exit_with(program, err, GT_EXIT_USAGE);
    if (options.help)
        return gt_exit_with_help(&gt_agent_command);
    if (options.version)
        return gt_exit_with_version(program);
    gt_log_setup(options.log_level, options.log_format);
    return gt_process_run(program, AGENT_DESCRIPTORS, agent_main_run, &options);
}
