/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The kinds of jobs. Each is a file of kinds/, and a line in this list: KIND(enum, variable). A pod belongs
 * to the first kind that says so. With gang scheduling Kubeflow's operators also write Volcano's labels, so
 * their kinds come first; a kind that makes objects of other kinds comes before these.
 */
#define GT_JOB_KIND_LIST(KIND)                                                                               \
    KIND(PYTORCH, pytorch)                                                                                   \
    KIND(TF, tf)                                                                                             \
    KIND(XGBOOST, xgboost)                                                                                   \
    KIND(PADDLE, paddle)                                                                                     \
    KIND(JAX, jax)                                                                                           \
    KIND(MPI, mpi)                                                                                           \
    KIND(MPI_V1, mpi_v1)                                                                                     \
    KIND(ELASTIC, elastic)                                                                                   \
    KIND(VOLCANO, volcano)                                                                                   \
    KIND(JOBSET, jobset)                                                                                     \
    KIND(LEADER_WORKER_SET, leader_worker_set)                                                               \
    KIND(RAY_CLUSTER, ray_cluster)                                                                           \
    KIND(RAY_JOB, ray_job)                                                                                   \
    KIND(RAY_SERVICE, ray_service)                                                                           \
    KIND(INDEXED, job)                                                                                       \
    KIND(STATEFULSET, statefulset)                                                                           \
    KIND(REPLICASET, replicaset)

/* The labels and annotations that kinds ask for: KEY(enum, text). No others are kept of a pod, besides our
 * own. */
#define GT_JOB_KEY_LIST(KEY)                                                                                 \
    KEY(KUBEFLOW_JOB, "training.kubeflow.org/job-name")                                                      \
    KEY(KUBEFLOW_TYPE, "training.kubeflow.org/replica-type")                                                 \
    KEY(KUBEFLOW_ROLE, "training.kubeflow.org/job-role")                                                     \
    KEY(KUBEFLOW_INDEX, "training.kubeflow.org/replica-index")                                               \
    KEY(VOLCANO_JOB, "volcano.sh/job-name")                                                                  \
    KEY(VOLCANO_TASK, "volcano.sh/task-spec")                                                                \
    KEY(VOLCANO_INDEX, "volcano.sh/task-index")                                                              \
    KEY(ELASTIC_JOB, "elasticjob.dlrover/name")                                                              \
    KEY(ELASTIC_TYPE, "elasticjob.dlrover/replica-type")                                                     \
    KEY(ELASTIC_INDEX, "elasticjob.dlrover/rank-index")                                                      \
    KEY(JOB, "batch.kubernetes.io/job-name")                                                                 \
    KEY(OLD_JOB, "job-name") /* before Kubernetes 1.27 */                                                    \
    KEY(JOB_INDEX, "batch.kubernetes.io/job-completion-index")                                               \
    KEY(STATEFUL_SET_INDEX, "apps.kubernetes.io/pod-index")                                                  \
    KEY(OWN_JOB, GT_ANNOTATION_JOB_NAME)                                                                     \
    KEY(OWN_PODS, GT_ANNOTATION_JOB_PODS)                                                                    \
    KEY(OWN_RANK, "metax-tech.com/rank")                                                                     \
    KEY(KUEUE_GROUP, "kueue.x-k8s.io/pod-group-name")                                                        \
    KEY(KUEUE_PODS, "kueue.x-k8s.io/pod-group-total-count")                                                  \
    KEY(KUEUE_INDEX, "kueue.x-k8s.io/pod-group-pod-index")                                                   \
    KEY(COSCHEDULING_GROUP, "scheduling.x-k8s.io/pod-group")                                                 \
    KEY(SCHEDULING_GROUP, "spec.schedulingGroup.podGroupName") /* no label: the pod's spec has it */         \
    KEY(LEADER_WORKER_SET, "leaderworkerset.sigs.k8s.io/name")                                               \
    KEY(LEADER_WORKER_SET_INDEX, "leaderworkerset.sigs.k8s.io/worker-index")                                 \
    KEY(JOB_SET, "jobset.sigs.k8s.io/jobset-name")                                                           \
    KEY(JOB_SET_ROLE, "jobset.sigs.k8s.io/replicatedjob-name")                                               \
    KEY(JOB_SET_INDEX, "jobset.sigs.k8s.io/job-index")                                                       \
    KEY(RAY_CLUSTER, "ray.io/cluster")                                                                       \
    KEY(RAY_GROUP, "ray.io/group")

enum { GT_CUSTOM_KINDS_MAX = 8 };

#define GT_JOB_KIND(name, file) GT_JOB_##name,
enum gt_job_kind {
    GT_JOB_KIND_LIST(GT_JOB_KIND) GT_JOB_CUSTOM, /* the first of GT_CUSTOM_KINDS_MAX that users describe */
    GT_JOB_KINDS = GT_JOB_CUSTOM + GT_CUSTOM_KINDS_MAX, /* how many may have objects; also: none of them */
    GT_JOB_PODS,                                        /* pods that say themselves which job they form */
    GT_JOB_OWNED,     /* pods that are known by their controller alone, of any kind */
    GT_JOB_POD_GROUP, /* pods without a controller that name a PodGroup of Volcano */
    GT_JOB_POD,       /* a pod without either: a job by itself */
};
#undef GT_JOB_KIND

/* The labels and annotations of a pod that are read. Some frameworks use both places. */
#define GT_POD_KEY(name, text) GT_KEY_##name,
enum gt_pod_key {
    /* What users say of a job. */
    GT_KEY_GROUP,
    GT_KEY_ATOMIC,
    GT_KEY_LOSS,
    GT_KEY_UNPLACED,
    GT_KEY_SPREAD,
    GT_KEY_JOB_TOPOLOGY,
    GT_KEY_GROUP_TOPOLOGY,
    GT_KEY_SLOW,
    GT_KEY_SIZES, /* so many */
    GT_KEY_PLAN_UNIT = GT_KEY_SIZES,
    GT_KEY_PLAN_RANK,
    GT_KEY_POD_GROUP,
    GT_KEY_MOVABLE,
    GT_KEY_COST,
    GT_KEY_MOVE_TO,
    GT_KEY_CHECKPOINT_ASKED,
    GT_KEY_CHECKPOINT_DONE,
    GT_JOB_KEY_LIST(GT_POD_KEY) GT_KEY_CUSTOM, /* the first label of kinds that users describe */
    GT_POD_KEYS = GT_KEY_CUSTOM + 24,
};
#undef GT_POD_KEY

const char *gt_pod_key_text(enum gt_pod_key key);
/* GT_POD_KEYS: it is none of them. */
enum gt_pod_key gt_pod_key_of(const char *text);
/* Adds a key, before any pod is read. GT_POD_KEYS: there are too many. */
enum gt_pod_key gt_pod_key_add(const char *text);
