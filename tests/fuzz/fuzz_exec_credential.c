/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "kube/config.h"
#include "tests/fuzz/fuzz.h"

/* What an exec plugin wrote: accepted with a credential that is complete, or refused with an error. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gt_auto_kube_config struct gt_kube_config config = {0};
    gt_auto_err struct gt_err *err = NULL;
    int r = gt_kube_exec_read((const char *)data, size, "client.authentication.k8s.io/v1", &config, &err);
    if ((r < 0) != (err != NULL) || (r >= 0) != gt_kube_config_has_credential(&config) ||
        !config.certificate_data != !config.key_data || config.expires_s < 0)
        abort();
    return 0;
}
