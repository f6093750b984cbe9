/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "api/meta.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_get.h"
#include "cli/api.h"
#include "cli/cli.h"

/* Applies definitions of custom resources. The chart's Job runs it before an upgrade: Helm itself never
 * changes what is in a chart's crds/. */

enum { CRD_BYTES_MAX = 1 << 20 };

struct apply_crds_options {
    struct cli_parse parse;
    struct cli_api_options api;
};

static const struct gt_option own_options[] = {
    CLI_API_OPTIONS(struct apply_crds_options),
    CLI_HELP_OPTION,
};

static int apply_crd(struct cli_api *api, const char *path, struct gt_buf *said, struct gt_err **err)
{
    gt_auto_free char *text = NULL;
    gt_auto_json cJSON *crd = NULL;
    size_t len;
    GT_TRY(gt_file_read(AT_FDCWD, path, CRD_BYTES_MAX, &text, &len, err));
    GT_TRY(gt_json_parse(text, len, path, &crd, err));
    if (strcmp(gt_get_string(crd, "kind"), "CustomResourceDefinition") != 0 || !*gt_meta_name(crd))
        return gt_fail(err, EINVAL, "%s: expected a CustomResourceDefinition with a name", path);
    const struct gt_kube_request request = {.verb = GT_KUBE_APPLY,
                                            .resource = &gt_kube_crds,
                                            .name = gt_meta_name(crd),
                                            .body = text,
                                            .field_manager = "gputopo",
                                            .force = true,
                                            .metadata_only = true};
    GT_TRY(cli_api_request(api, &request, NULL, err));
    gt_buf_printf(said, "%s\n", request.name);
    return 0;
}

static int apply_crds_run(struct cli_call *call)
{
    const struct apply_crds_options *options = call->options;
    cli_auto_api struct cli_api *api = NULL;
    GT_TRY(cli_api_open(&options->api, &api, call->err));
    for (char **file = call->args; *file; file++)
        GT_TRY(apply_crd(api, *file, call->text, call->err));
    return 0;
}
const struct cli_verb cli_apply_crds = {
    .name = "apply-crds",
    .about = "apply definitions of custom resources, for the Helm chart",
    .command =
        {.arguments = "FILE...",
         .about = "Apply CustomResourceDefinitions, each in a file of JSON, whoever has written them before. "
                  "The Helm chart runs it before an upgrade.",
         .more = "Example: gputopo apply-crds supernodes.json",
         CLI_OPTIONS(own_options)},
    .least_args = 1,
    .most_args = INT_MAX,
    .wanted = "expected a file",
    .options_size = sizeof(struct apply_crds_options),
    .run = apply_crds_run};
