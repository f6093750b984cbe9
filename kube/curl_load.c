/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/curl_load.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/file.h"

int gt_pem_open(const char *data, const char *name, struct gt_pem *ret, struct gt_err **err)
{
    if (!data)
        return 0;
    gt_auto_close int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0)
        return gt_fail_sys(err, errno, "%s", name);
    int r = gt_file_write_all(fd, data, strlen(data));
    if (r < 0)
        return gt_fail_sys(err, -r, "%s", name);
    ret->fd = gt_steal_fd(&fd);
    snprintf(ret->path, sizeof(ret->path), "/proc/self/fd/%d", ret->fd);
    return 0;
}

void gt_pem_close(struct gt_pem *pem)
{
    if (pem->fd >= 0)
        close(pem->fd);
    pem->fd = -1;
}

static struct gt_curl table;

#define CURL_LIBRARY "libcurl-gnutls.so.4" /* the flavour that shares its TLS library with libmicrohttpd */

int gt_curl_load(struct gt_curl *ret, struct gt_err **err)
{
    static void *library; /* stays: a library with global state is not to be unloaded and loaded again */
    if (!library) {
        void *handle = dlopen(CURL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
        if (!handle)
            return gt_fail(err, ENOENT, "HTTP client: %s", dlerror());
        struct gt_curl found;
        const char *missing = NULL;
#define GT_CURL_FIND(name)                                                                                   \
    void *at_##name = dlsym(handle, #name);                                                                  \
    memcpy(&found.name, &at_##name, sizeof(at_##name));                                                      \
    missing = at_##name ? missing : #name;
        GT_CURL_FUNCTIONS(GT_CURL_FIND)
#undef GT_CURL_FIND
        if (missing) {
            dlclose(handle);
            return gt_fail(err, ENOENT, "HTTP client: %s has no %s", CURL_LIBRARY, missing);
        }
        found.http2 = true;
        table = found;
        library = handle;
    }
    *ret = table;
    return 0;
}

CURLcode gt_pem_use(CURL *easy, const struct gt_pem *pem, CURLoption blob, const char *path, CURLoption file)
{
    (void)blob;
    path = pem->fd >= 0 ? pem->path : path;
    return path ? table.curl_easy_setopt(easy, file, path) : CURLE_OK;
}
