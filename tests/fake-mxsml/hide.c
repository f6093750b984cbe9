/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fake-mxsml/scenario.h"

/*
 * A library without some function, without building one for every function: when it is loaded, it clears the
 * entries in its own dynamic symbol table, after which dlsym() does not find them. (Linked with
 * --hash-style=sysv, whose header tells the number of symbols.)
 */
extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));

static uintptr_t load_address(void)
{
    extern const char __ehdr_start __attribute__((visibility("hidden")));
    return (uintptr_t)&__ehdr_start;
}

static uintptr_t address_of(ElfW(Addr) value, uintptr_t base)
{
    return value < base ? base + value : value; /* the loader has relocated it, or not */
}

static void hide(ElfW(Sym) * symbol)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)symbol & ~(page - 1);
    size_t len = (uintptr_t)symbol + sizeof(*symbol) - from;
    if (mprotect((void *)from, len, PROT_READ | PROT_WRITE) == 0)
        symbol->st_value = 0;
}

void scenario_hide_symbols(void)
{
    uintptr_t base = load_address();
    const ElfW(Word) *hash = NULL;
    ElfW(Sym) *symbols = NULL;
    const char *names = NULL;
    for (ElfW(Dyn) *d = _DYNAMIC; d->d_tag != DT_NULL; d++) {
        uintptr_t address = address_of(d->d_un.d_ptr, base);
        if (d->d_tag == DT_HASH)
            hash = (const ElfW(Word) *)address;
        else if (d->d_tag == DT_SYMTAB)
            symbols = (ElfW(Sym) *)address;
        else if (d->d_tag == DT_STRTAB)
            names = (const char *)address;
    }
    const cJSON *fault;
    cJSON_ArrayForEach(fault, cJSON_GetObjectItemCaseSensitive(scenario_root(), "faults"))
    {
        if (strcmp(scenario_text(fault, "do", ""), "missing") != 0)
            continue;
        for (ElfW(Word) i = 1; hash && symbols && names && i < hash[1]; i++)
            if (strcmp(names + symbols[i].st_name, scenario_text(fault, "call", "")) == 0)
                hide(&symbols[i]);
    }
}
