/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fake-mxsml/scenario.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX = 8 << 20, FAULTS_MAX = 64, PATIENCE_MS = 100 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cJSON *root, *trees; /* the scenario in force; all that were read */
static struct stat read_from;
static unsigned hits[FAULTS_MAX]; /* how often each fault has been looked up by a call it means */

static cJSON *read_scenario(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = malloc(FILE_MAX);
    cJSON *json = NULL;
    if (file && text) {
        size_t n = fread(text, 1, FILE_MAX, file);
        json = cJSON_ParseWithLength(text, n);
    }
    free(text);
    if (file)
        fclose(file);
    return json;
}

void scenario_refresh(bool always)
{
    const char *path = getenv("GPUTOPO_FAKE_MXSML");
    struct stat st;
    pthread_mutex_lock(&lock);
    if (!path || stat(path, &st) < 0) {
        if (!root)
            root = cJSON_CreateObject();
    } else if (!root || always || st.st_mtim.tv_sec != read_from.st_mtim.tv_sec ||
               st.st_mtim.tv_nsec != read_from.st_mtim.tv_nsec || st.st_ino != read_from.st_ino) {
        cJSON *json = read_scenario(path);
        /* Old trees stay: another thread may be reading one. A test's file changes a few times only. */
        if (json) {
            if (!trees)
                trees = cJSON_CreateArray();
            cJSON_AddItemToArray(trees, json);
            root = json;
            read_from = st;
            memset(hits, 0, sizeof(hits));
        } else if (!root) {
            root = cJSON_CreateObject();
        }
    }
    pthread_mutex_unlock(&lock);
}

const cJSON *scenario_root(void)
{
    return root;
}

unsigned scenario_devices(void)
{
    return (unsigned)cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(root, "devices"));
}

const cJSON *scenario_device(unsigned device)
{
    if (device >= scenario_devices())
        return NULL;
    return cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(root, "devices"), (int)device);
}

double scenario_number(const cJSON *object, const char *key, double otherwise)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : otherwise;
}

const char *scenario_text(const cJSON *object, const char *key, const char *otherwise)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsString(item) ? item->valuestring : otherwise;
}

static void hang(void)
{
    for (;;)
        pause();
}

static void crash(void)
{
    signal(SIGSEGV, SIG_DFL); /* a real end by signal also where a sanitizer catches it */
    raise(SIGSEGV);
}

enum fault scenario_fault(const char *call, long device, long link, int *ret_code)
{
    const cJSON *fault;
    unsigned i = 0;
    const char *what = "";
    pthread_mutex_lock(&lock);
    cJSON_ArrayForEach(fault, cJSON_GetObjectItemCaseSensitive(root, "faults"))
    {
        unsigned at = i++;
        const char *name = scenario_text(fault, "call", "");
        double only = scenario_number(fault, "dev", -1), only_link = scenario_number(fault, "link", -1);
        if (at >= FAULTS_MAX || (strcmp(name, call) != 0 && strcmp(name, "*") != 0) ||
            (only >= 0 && (long)only != device) || (only_link >= 0 && (long)only_link != link))
            continue;
        unsigned hit = hits[at]++;
        double after = scenario_number(fault, "after", 0), times = scenario_number(fault, "times", 1e9);
        if (hit < after || hit >= after + times)
            continue;
        what = scenario_text(fault, "do", "");
        *ret_code = (int)scenario_number(fault, "code", 1);
        long ms = (long)scenario_number(fault, "ms", PATIENCE_MS);
        if (strcmp(what, "slow") == 0) {
            pthread_mutex_unlock(&lock);
            usleep((useconds_t)ms * 1000);
            return FAULT_NONE;
        }
        break;
    }
    pthread_mutex_unlock(&lock);
    if (strcmp(what, "hang") == 0)
        hang();
    if (strcmp(what, "crash") == 0)
        crash();
    if (strcmp(what, "exit") == 0)
        _exit(3);
    if (strcmp(what, "noise") == 0) {
        for (int line = 0; line < 2000; line++) {
            printf("{\"noise\":%d} on standard output\n", line);
            fprintf(stderr, "noise on standard error\n");
        }
        fflush(stdout);
    }
    if (strcmp(what, "code") == 0)
        return FAULT_CODE;
    if (strcmp(what, "garbage") == 0)
        return FAULT_GARBAGE;
    if (strcmp(what, "unterminated") == 0)
        return FAULT_UNTERMINATED;
    if (strcmp(what, "wrongsize") == 0)
        return FAULT_WRONG_SIZE;
    return FAULT_NONE;
}
