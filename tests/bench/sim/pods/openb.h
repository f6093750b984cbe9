/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/sim/site.h"
#include "scheduler-ext/sim/trace.h"

/* The two lists of the openb trace: nodes, and pods that ask for CPU, memory, and GPUs or a part of one. */
enum {
    OPENB_PODS_MAX = 4 << 20,
    OPENB_MODELS_MAX = 62, /* of GPUs */
    OPENB_MODEL_LEN = 32,
    OPENB_SPECS_MAX = 255,
    OPENB_SPEC_LEN = 128,
};

struct openb_node {
    uint32_t gpus, cpu_milli, memory_mib;
    uint32_t model; /* of its GPUs, an index of `models`; 0: not known */
};

struct openb_nodes {
    struct openb_node *node; /* by name */
    uint32_t count, gpus;
    char models[OPENB_MODELS_MAX + 1][OPENB_MODEL_LEN]; /* [model] names, from 1 on */
    uint32_t model_count;                               /* without 0 */
};

struct openb_pod {
    uint32_t gpus;
    uint32_t milli; /* thousandths of each GPU; less than 1000 only for one GPU */
    uint32_t cpu_milli, memory_mib;
    uint32_t spec; /* models of GPUs that it can use, an index of `specs`; 0: any */
};

struct openb_pods {
    struct openb_pod *pod;
    uint32_t count;
    char (*specs)[OPENB_SPEC_LEN]; /* [spec_count + 1] names separated by "|", from 1 on */
    uint32_t spec_count;
};

/* The text of a file with the header "sn,cpu_milli,memory_mib,gpu,model", or with one that begins with
 * "name,cpu_milli,memory_mib,num_gpu,gpu_milli". `file` names it in errors, FILE:LINE: what. The text is
 * changed. The caller frees what it gets, also after an error. */
int openb_read_nodes(const char *file, char *text, size_t len, struct openb_nodes *ret, struct gt_err **err);
int openb_read_pods(const char *file, char *text, size_t len, struct openb_pods *ret, struct gt_err **err);
void openb_nodes_done(struct openb_nodes *nodes);
void openb_pods_done(struct openb_pods *pods);
#define auto_openb_nodes __attribute__((cleanup(openb_nodes_done)))
#define auto_openb_pods  __attribute__((cleanup(openb_pods_done)))

/* Leaves out the pods that ask for a part of a GPU. -EINVAL when no pod with GPUs is left. */
int openb_drop_shared(struct openb_pods *pods, struct gt_err **err);

/* The same nodes in random order. */
int openb_shuffle(const struct openb_nodes *from, struct gt_rng *rng, struct openb_nodes *ret,
                  struct gt_err **err);

/* The number of a model by its name; 0: no node has it. */
uint32_t openb_model_number(const struct openb_nodes *nodes, const char *name);

/* The GPUs of the nodes, each a supernode by itself; groups of four have direct links. */
int openb_site(const struct openb_nodes *nodes, struct gt_site **ret, struct gt_err **err);
