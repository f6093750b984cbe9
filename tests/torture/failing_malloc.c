/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Preloaded before a program: fails one of its allocations, or all from one on.
 *
 *   TORTURE_AT=N     the N-th, from 1; 0: none
 *   TORTURE_ALL=1    and all after it
 *   TORTURE_OUT=FILE what happened: "failed FRAME..." and "crashed FRAME..." at once; at exit "count N", and
 * "live KEY N" for what was never freed, KEY being "module+offset" of who asked for it
 *
 * Only those count that the program asks for itself, or cJSON, protobuf-c or libyaml for it: the nearest
 * caller outside of libc decides. gRPC ends the process without memory, and other libraries are not tested
 * here.
 */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void __libc_free(void *p);

enum { MODULES = 8, FRAMES = 24, SLOTS = 1 << 18 };
enum part { OTHERS, OURS, LIBC, LOADER };

static struct module {
    uintptr_t begin, end, base;
    enum part part;
    char name[32];
} modules[MODULES];
static unsigned module_count;
static atomic_ulong count, at;
static bool all;
static int out = -1;
static _Thread_local bool inside;

static struct slot {
    void *p, *caller;
} slots[SLOTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool tracks = true;

static enum part part_of(const char *path)
{
    static const char *const ours[] = {"libcjson", "libprotobuf-c", "libyaml"};
    if (!*path)
        return OURS;
    for (unsigned i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
        if (strstr(path, ours[i]))
            return OURS;
    if (strstr(path, "/ld-linux"))
        return LOADER;
    return strstr(path, "/libc.so") ? LIBC : OTHERS;
}

static int see_module(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size, (void)arg;
    const char *slash = strrchr(info->dlpi_name, '/');
    enum part part = part_of(info->dlpi_name);
    for (int i = 0; part != OTHERS && i < info->dlpi_phnum && module_count < MODULES; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_LOAD || !(header->p_flags & PF_X))
            continue;
        struct module *module = &modules[module_count++];
        module->base = info->dlpi_addr;
        module->begin = info->dlpi_addr + header->p_vaddr;
        module->end = module->begin + header->p_memsz;
        module->part = part;
        snprintf(module->name, sizeof(module->name), "%.31s", slash ? slash + 1 : "program");
    }
    return 0;
}

static const struct module *module_of(const void *address)
{
    for (unsigned i = 0; i < module_count; i++)
        if ((uintptr_t)address >= modules[i].begin && (uintptr_t)address < modules[i].end)
            return &modules[i];
    return NULL;
}

/* The caller that allocates memory if it is our code, else NULL. */
static void *caller_of(void *address)
{
    const struct module *module = module_of(address);
    if (!module || module->part == OURS)
        return module ? address : NULL;
    void *frames[FRAMES];
    inside = true;
    int n = backtrace(frames, FRAMES);
    inside = false;
    bool seen = false;
    for (int i = 0; i < n; i++) {
        seen = seen || frames[i] == address;
        module = seen ? module_of(frames[i]) : NULL;
        if (seen && (!module || module->part == OURS))
            return module ? frames[i] : NULL;
    }
    return NULL;
}

static void write_frames(const char *what)
{
    void *frames[FRAMES];
    char line[FRAMES * 48];
    size_t len = (size_t)snprintf(line, sizeof(line), "%s", what);
    inside = true;
    int n = backtrace(frames, FRAMES);
    inside = false;
    for (int i = 2; i < n; i++) {
        const struct module *module = module_of(frames[i]);
        if (module && module->part == OURS && len + 48 < sizeof(line))
            len += (size_t)snprintf(line + len, sizeof(line) - len, " %s+%#lx", module->name,
                                    (unsigned long)((uintptr_t)frames[i] - module->base));
    }
    line[len++] = '\n';
    if (out >= 0 && write(out, line, len) < 0)
        out = -1;
}

static bool fails(void)
{
    unsigned long n = atomic_fetch_add(&count, 1) + 1, first = atomic_load(&at);
    if (!first || n < first || (n > first && !all))
        return false;
    if (n == first)
        write_frames("failed");
    errno = ENOMEM;
    return true;
}

static size_t slot_of(const void *p)
{
    return ((uintptr_t)p >> 4) * 0x9e3779b1u % SLOTS;
}

/* The loader keeps its memory, such as threads' storage and libraries, so it does not count. */
static void keep(void *p, void *caller, const void *address)
{
    const struct module *module = module_of(address);
    if (module && module->part == LOADER)
        return;
    pthread_mutex_lock(&lock);
    size_t i = slot_of(p), tried = 0;
    while (slots[i].p && slots[i].p != (void *)1 && ++tried < SLOTS)
        i = (i + 1) % SLOTS;
    tracks = tracks && tried < SLOTS / 2;
    if (tracks)
        slots[i] = (struct slot){p, caller};
    pthread_mutex_unlock(&lock);
}

static void forget(const void *p)
{
    if (!p || !module_count)
        return;
    pthread_mutex_lock(&lock);
    for (size_t i = slot_of(p), tried = 0; slots[i].p && tried < SLOTS / 2; i = (i + 1) % SLOTS, tried++)
        if (slots[i].p == p) {
            slots[i].p = (void *)1;
            break;
        }
    pthread_mutex_unlock(&lock);
}

void *malloc(size_t size)
{
    void *caller = module_count && !inside ? caller_of(__builtin_return_address(0)) : NULL;
    if (caller && fails())
        return NULL;
    void *p = __libc_malloc(size);
    if (caller && p)
        keep(p, caller, __builtin_return_address(0));
    return p;
}

void *calloc(size_t n, size_t size)
{
    void *caller = module_count && !inside ? caller_of(__builtin_return_address(0)) : NULL;
    if (caller && fails())
        return NULL;
    void *p = __libc_calloc(n, size);
    if (caller && p)
        keep(p, caller, __builtin_return_address(0));
    return p;
}

static void *resize(void *p, size_t size, void *address)
{
    void *caller = module_count && !inside ? caller_of(address) : NULL;
    if (caller && fails())
        return NULL;
    forget(p);
    void *moved = __libc_realloc(p, size);
    if (caller && moved)
        keep(moved, caller, address);
    return moved;
}

void *realloc(void *p, size_t size)
{
    return resize(p, size, __builtin_return_address(0));
}

void *reallocarray(void *p, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return resize(p, bytes, __builtin_return_address(0));
}

void free(void *p)
{
    forget(p);
    __libc_free(p);
}

static void crashed(int number)
{
    write_frames("crashed");
    signal(number, SIG_DFL);
    raise(number);
}

__attribute__((constructor)) static void begin(void)
{
    const char *file = getenv("TORTURE_OUT"), *number = getenv("TORTURE_AT");
    void *frame;
    backtrace(&frame, 1); /* loads the unwinder, which allocates */
    all = getenv("TORTURE_ALL") != NULL;
    out = file ? open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    atomic_store(&at, number ? strtoul(number, NULL, 10) : 0);
    signal(SIGSEGV, crashed);
    signal(SIGABRT, crashed);
    unsetenv("LD_PRELOAD"); /* not for its children */
    dl_iterate_phdr(see_module, NULL);
}

__attribute__((destructor)) static void end(void)
{
    inside = true;
    if (out < 0)
        return;
    dprintf(out, "count %lu\n", atomic_load(&count));
    for (size_t i = 0; tracks && i < SLOTS; i++) {
        const struct module *module = (uintptr_t)slots[i].p > 1 ? module_of(slots[i].caller) : NULL;
        if (module)
            dprintf(out, "live %s+%#lx\n", module->name,
                    (unsigned long)((uintptr_t)slots[i].caller - module->base));
    }
}
