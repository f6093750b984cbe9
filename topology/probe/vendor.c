/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/probe/vendor.h"

#include <dlfcn.h>
#include <string.h>

static void *library;

bool gt_vendor_open(const char *path, const char **ret_why)
{
    if (!library)
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library)
        return true;
    const char *why = dlerror();
    *ret_why = why ? why : "dlopen failed";
    return false;
}

gt_vendor_function *gt_vendor_symbol(const char *name)
{
    /* ISO C has no cast from an object pointer to a function pointer. */
    void *address = library ? dlsym(library, name) : NULL;
    gt_vendor_function *function;
    memcpy(&function, &address, sizeof(function));
    return function;
}
