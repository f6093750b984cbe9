/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "tests/fuzz/fuzz.h"

/* Runs a harness without a fuzzer: over every file of the directories given, and over each file cut short. A
 * regression test that any compiler can build. */
enum { INPUT_MAX = 1 << 20, CUTS = 64 };

static unsigned run_directory(const char *name)
{
    unsigned count = 0;
    gt_auto_dir DIR *dir = opendir(name);
    if (!dir) {
        fprintf(stderr, "%s: cannot be opened\n", name);
        exit(1);
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        char *data;
        size_t len;
        if (entry->d_name[0] == '.' ||
            gt_file_read(dirfd(dir), entry->d_name, INPUT_MAX, &data, &len, NULL) < 0)
            continue;
        LLVMFuzzerTestOneInput((const uint8_t *)data, len);
        for (size_t cut = 1; cut < CUTS && cut < len; cut++)
            LLVMFuzzerTestOneInput((const uint8_t *)data, len * cut / CUTS);
        free(data);
        count++;
    }
    return count;
}

int main(int argc, char **argv)
{
    unsigned count = 0;
    for (int i = 1; i < argc; i++)
        count += run_directory(argv[i]);
    printf("%u inputs\n", count);
    return count ? 0 : 1;
}
