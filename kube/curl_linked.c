/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <string.h>

#include "kube/curl_load.h"

/* libcurl within the program, with a TLS library that takes PEM texts from memory: the client alone. */

int gt_curl_load(struct gt_curl *ret, struct gt_err **err)
{
    (void)err;
#define GT_CURL_LINKED(name) .name = (name),
    *ret = (struct gt_curl){GT_CURL_FUNCTIONS(GT_CURL_LINKED).http2 = false};
#undef GT_CURL_LINKED
    return 0;
}

int gt_pem_open(const char *data, const char *name, struct gt_pem *ret, struct gt_err **err)
{
    (void)name;
    (void)err;
    ret->text = data;
    return 0;
}

void gt_pem_close(struct gt_pem *pem)
{
    pem->text = NULL;
}

CURLcode gt_pem_use(CURL *easy, const struct gt_pem *pem, CURLoption blob, const char *path, CURLoption file)
{
    /* The TLS library wants the terminating NUL, too. */
    struct curl_blob text = {(void *)(uintptr_t)pem->text, pem->text ? strlen(pem->text) + 1 : 0,
                             CURL_BLOB_NOCOPY};
    if (pem->text)
        return curl_easy_setopt(easy, blob, &text);
    return path ? curl_easy_setopt(easy, file, path) : CURLE_OK;
}
