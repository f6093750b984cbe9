/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* Names in the API of Kubernetes, and the limits of what is read. */

/* The custom resources. */
#define GT_API_GROUP                "topology.metax-tech.com"
#define GT_API_VERSION              "v1alpha1"
#define GT_API_GROUP_VERSION        GT_API_GROUP "/" GT_API_VERSION
#define GT_PLURAL_NODE_GPU_TOPOLOGY "nodegputopologies"
#define GT_PLURAL_SUPERNODE         "supernodes"
#define GT_PLURAL_GPU_PLACEMENT     "gpuplacements"
#define GT_KIND_NODE_GPU_TOPOLOGY   "NodeGPUTopology"
#define GT_KIND_SUPERNODE           "Supernode"
#define GT_KIND_GPU_PLACEMENT       "GPUPlacement"

/* Conditions of a NodeGPUTopology, and reasons that readers know. */
#define GT_CONDITION_DISCOVERED     "Discovered"
#define GT_CONDITION_VENDOR_LIBRARY "VendorLibrary"
#define GT_CONDITION_REGISTERED     "Registered"
#define GT_CONDITION_LINKS_HEALTHY  "LinksHealthy"
#define GT_CONDITION_USAGE_KNOWN    "UsageKnown"
#define GT_CONDITION_NUMA           "NUMAAlignment"
#define GT_CONDITION_GPUS_HEALTHY   "GPUsHealthy"
#define GT_CONDITION_NODE_GPUS      "MetaXGPUHealthy" /* of the Node */
#define GT_REASON_NO_GPU            "NoGPU"
#define GT_REASON_GPU_LOST          "GPULost"
#define GT_REASON_GPU_UNHEALTHY     "GPUUnhealthy"
#define GT_REASON_NO_DEVICE_PLUGIN  "NoDevicePlugin"
#define GT_REASON_SLOW_GPUS         "SlowGPUs"         /* of an Event of a pod */
#define GT_REASON_BY_CLAIMS         "DriverRegistered" /* claims give its GPUs, no device plugin does */

/* The extended resource of whole GPUs, unless another is configured. */
#define GT_RESOURCE_GPU "metax-tech.com/gpu"

/* Dynamic Resource Allocation: our driver, the class of its GPUs, the key of the taint of unhealthy ones, and
 * the annotation that makes the kubelet handle a pod again. */
#define GT_DRA_DRIVER         "gpu.metax-tech.com"
#define GT_DRA_CLASS          "gpu.metax-tech.com"
#define GT_DRA_TAINT          GT_DRA_DRIVER "/unhealthy"
#define GT_ANNOTATION_RETRIED GT_DRA_DRIVER "/retried"

/* Signs of the vendor's device plugin if it shares GPUs: its resource, and an annotation of the Node. */
#define GT_RESOURCE_SGPU          "metax-tech.com/sgpu"
#define GT_ANNOTATION_VENDOR_GPUS "metax-tech.com/node-gpu-devices"

/* What gputopo-agent writes on its Node. */
#define GT_ANNOTATION_LOSSES "metax-tech.com/gpu.topology.losses"
#define GT_ANNOTATION_SCORES "metax-tech.com/gpu.topology.scores"
#define GT_LABEL_GPU_FAMILY  "metax-tech.com/gpu.family"
#define GT_LABEL_GPU_MEMORY  "metax-tech.com/gpu.memory"
#define GT_LABEL_GPU_PRODUCT "metax-tech.com/gpu.product"

/* Labels that NFD writes on a Node for us: its supernode, and the supernodes of higher tiers that contain it,
 * ".../tier-2" and so on. */
#define GT_LABEL_MEMBER_OF   GT_API_GROUP "/member-of"
#define GT_LABEL_TIER_PREFIX GT_API_GROUP "/tier-"

/* Labels that name a Node's supernode: the default, which no kubelet may set (the admission plugin
 * NodeRestriction), and that of earlier versions, which is not read any more. */
#define GT_LABEL_SUPERNODE     "node-restriction.kubernetes.io/gputopo-supernode"
#define GT_LABEL_OLD_SUPERNODE GT_API_GROUP "/supernode"

/* Taints that the control plane sets for a Node that is not ready or is cordoned. */
#define GT_TAINT_KEY_UNSCHEDULABLE "node.kubernetes.io/unschedulable"
#define GT_TAINT_KEY_NOT_READY     "node.kubernetes.io/not-ready"
#define GT_TAINT_KEY_UNREACHABLE   "node.kubernetes.io/unreachable"

/* The taint that the companion sets where too many GPUs are bad. */
#define GT_TAINT_KEY_GPUS "metax-tech.com/unhealthy-gpus"

/* On a Supernode: how many of its nodes are for replacements only. */
#define GT_ANNOTATION_SPARES   "metax-tech.com/spare-nodes"
/* On Nodes and Supernodes: until when people reserve them, and for whom (reserved.h). */
#define GT_ANNOTATION_RESERVED "metax-tech.com/reserved-until"

/* What users write on the pods of a job, on their templates, or on the object that makes them. */
#define GT_ANNOTATION_GROUP            "metax-tech.com/gpu-group-size"
#define GT_ANNOTATION_ATOMIC           "metax-tech.com/atomic-gpu-group-size"
#define GT_ANNOTATION_LOSS             "metax-tech.com/on-node-loss"
#define GT_ANNOTATION_UNPLACED         "metax-tech.com/on-unplaced"
#define GT_GROUP_WHOLE                 "group"    /* a unit is the whole job, or group of a LeaderWorkerSet */
#define GT_GROUP_PART                  "subgroup" /* or a subgroup of such a group */
#define GT_ANNOTATION_SPREAD           "metax-tech.com/spread"
#define GT_ANNOTATION_JOB_TOPOLOGY     "metax-tech.com/job-topology"
#define GT_ANNOTATION_GROUP_TOPOLOGY   "metax-tech.com/gpu-group-topology"
#define GT_ANNOTATION_SLOW             "metax-tech.com/slow-gpus"
#define GT_ANNOTATION_JOB_NAME         "metax-tech.com/job-name"
#define GT_ANNOTATION_JOB_PODS         "metax-tech.com/job-pods"
/* On pods alone: whether it may move for others, what a restart costs it, and the node that it is to move to.
 */
#define GT_ANNOTATION_MOVABLE          "metax-tech.com/movable"
#define GT_ANNOTATION_COST             "metax-tech.com/restart-cost"
#define GT_ANNOTATION_MOVE_TO          "metax-tech.com/move-to"
#define GT_MOVE_ANYWHERE               "*" /* any node but those that its unit has to leave */
/* The companion asks for a checkpoint with a time, and the job says that it has one with the same time. */
#define GT_ANNOTATION_CHECKPOINT_ASKED "metax-tech.com/checkpoint-asked"
#define GT_ANNOTATION_CHECKPOINT_DONE  "metax-tech.com/checkpoint-done"
#define GT_USER_PREFIX                 "metax-tech.com/" /* of the annotations of users */

/* On a Namespace: how its jobs without units lie. */
#define GT_ANNOTATION_DEFAULT_TOPOLOGY "metax-tech.com/default-job-topology"

/* Volcano: a pod's PodGroup, and the default name of its scheduler. */
#define GT_ANNOTATION_POD_GROUP "scheduling.k8s.io/group-name"
#define GT_SCHEDULER_VOLCANO    "volcano"

/* Gates of others: Volcano removes its own when it has placed the pod; Kueue removes its gates when the pod
 * is admitted, and when it has its topology domain. */
#define GT_GATE_VOLCANO        "scheduling.volcano.sh/queue-allocation-gate"
#define GT_GATE_KUEUE          "kueue.x-k8s.io/admission"
#define GT_GATE_KUEUE_TOPOLOGY "kueue.x-k8s.io/topology"

/* What gputopo-scheduler writes on a pod. */
#define GT_GATE                  "metax-tech.com/gpu-placement"
#define GT_CONDITION_PLACEMENT   "GPUPlacement"
/* Reasons of that condition after a plan was given up: the scheduler refused its nodes, or its queue held it.
 */
#define GT_CONDITION_REFUSED     "PlanRefused"
#define GT_CONDITION_HELD        "HeldByQueue"
#define GT_PLAN_PREFIX           "plan.topology.metax-tech.com/"
#define GT_PLAN_ANNOTATION_GPUS  GT_PLAN_PREFIX "gpus" /* pod_plan.h */
#define GT_PLAN_ANNOTATION_NODE  GT_PLAN_PREFIX "node"
#define GT_PLAN_ANNOTATION_UNIT  GT_PLAN_PREFIX "unit" /* number of the pod's unit in its job, from 0 */
#define GT_PLAN_ANNOTATION_RANK  GT_PLAN_PREFIX "rank"
#define GT_PLAN_ANNOTATION_EPOCH GT_PLAN_PREFIX "epoch" /* no plan of an earlier epoch is written */

/* For launchers, which read them through the downward API. */
#define GT_PLAN_ANNOTATION_UNIT_RANK GT_PLAN_PREFIX "unit-rank" /* within its unit, from 0 */
#define GT_PLAN_ANNOTATION_SUPERNODE GT_PLAN_PREFIX "supernode" /* or the node, if it is in none */
#define GT_PLAN_ANNOTATION_TIER      GT_PLAN_PREFIX "tier" /* of the lowest supernode with the whole unit */

/* Names of the programs that write: field managers, User-Agents. */
#define GT_AGENT_NAME        "gputopo-agent"
#define GT_COMPANION_NAME    "gputopo-scheduler"
#define GT_VC_SCHEDULER_NAME "gputopo-vc-scheduler"
#define GT_DOMAIN            "metax-tech.com" /* of the names of controllers */
#define GT_MANAGER_AGENT     GT_AGENT_NAME
#define GT_MANAGER_USAGE     GT_AGENT_NAME "-usage"
#define GT_MANAGER_LABELS    GT_AGENT_NAME "-labels"
#define GT_MANAGER_CONDITION GT_AGENT_NAME "-condition"
#define GT_MANAGER_COMPANION GT_COMPANION_NAME

/* On the companion's Lease and on that of vc-scheduler: what its holder has reserved, for other programs
 * (lease_note.h). */
#define GT_ANNOTATION_LEASE_NOTE GT_API_GROUP "/note"

/* On objects of our kinds and of others: the program that manages them, GT_COMPANION_NAME. */
#define GT_LABEL_MANAGED_BY "app.kubernetes.io/managed-by"

enum {
    GT_OWNER_REPLICAS_MAX = 1 << 17, /* replicas of a template; also pods of a job */
};
