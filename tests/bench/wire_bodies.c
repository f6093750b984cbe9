/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/wire_bodies.h"

static void put_fields(struct gt_buf *to, const char *manager, unsigned paths)
{
    gt_buf_printf(to,
                  "{\"manager\":\"%s\",\"operation\":\"Update\",\"apiVersion\":\"v1\","
                  "\"time\":\"2026-07-01T08:00:00Z\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{",
                  manager);
    for (unsigned i = 0; i < paths; i++)
        gt_buf_printf(to,
                      "%s\"f:section%u\":{\".\":{},\"k:{\\\"type\\\":\\\"Condition%u\\\"}\":{\".\":{},"
                      "\"f:lastTransitionTime\":{},\"f:message\":{},\"f:reason\":{},\"f:status\":{}}}",
                      i ? "," : "", i, i);
    gt_buf_puts(to, "}}");
}

void gt_body_pod(struct gt_buf *to, uint32_t number)
{
    gt_buf_printf(to,
                  "{\"metadata\":{\"name\":\"train-worker-%u\",\"generateName\":\"train-worker-\","
                  "\"namespace\":\"team-a\",\"uid\":\"7d4c0b1e-1111-4222-8333-%012u\","
                  "\"resourceVersion\":\"%u\",\"creationTimestamp\":\"2026-07-01T08:00:00Z\",\"labels\":{"
                  "\"app\":\"train\",\"training.kubeflow.org/replica-type\":\"worker\","
                  "\"training.kubeflow.org/replica-index\":\"%u\"},\"annotations\":{"
                  "\"metax-tech.com/gpu-group-size\":\"32\","
                  "\"scheduling.k8s.io/group-name\":\"train\",\"example.com/settings\":"
                  "\"{\\\"mode\\\":\\\"fast\\\",\\\"paths\\\":[\\\"/data\\\",\\\"/out\\\"]}\"},"
                  "\"ownerReferences\":[{\"apiVersion\":\"kubeflow.org/v1\",\"kind\":\"PyTorchJob\","
                  "\"name\":\"train\",\"uid\":\"0c1d\",\"controller\":true,\"blockOwnerDeletion\":true}],"
                  "\"managedFields\":[",
                  number, number, number + 1000, number);
    put_fields(to, "training-operator", 16);
    gt_buf_puts(to, ",");
    put_fields(to, "kubelet", 8);
    gt_buf_puts(to, "]},\"spec\":{\"volumes\":[");
    for (unsigned i = 0; i < 4; i++)
        gt_buf_printf(to,
                      "%s{\"name\":\"volume-%u\",\"projected\":{\"sources\":[{\"serviceAccountToken\":{"
                      "\"expirationSeconds\":3607,\"path\":\"token\"}},{\"configMap\":{\"name\":"
                      "\"kube-root-ca.crt\",\"items\":[{\"key\":\"ca.crt\",\"path\":\"ca.crt\"}]}}],"
                      "\"defaultMode\":420}}",
                      i ? "," : "", i);
    gt_buf_puts(to, "],\"containers\":[{\"name\":\"pytorch\",\"image\":\"example/train:1.0\",\"command\":["
                    "\"python3\",\"train.py\",\"--steps=1000\"],\"env\":[");
    for (unsigned i = 0; i < 20; i++)
        gt_buf_printf(to, "%s{\"name\":\"SETTING_%u\",\"value\":\"some value of an ordinary length %u\"}",
                      i ? "," : "", i, i * 7919);
    gt_buf_puts(to, "],\"resources\":{\"limits\":{\"cpu\":\"64\",\"memory\":\"512Gi\","
                    "\"metax-tech.com/gpu\":\"8\"},\"requests\":{\"cpu\":\"64\",\"memory\":\"512Gi\","
                    "\"metax-tech.com/gpu\":\"8\"}},\"terminationMessagePath\":\"/dev/termination-log\","
                    "\"imagePullPolicy\":\"IfNotPresent\"}],\"restartPolicy\":\"Never\","
                    "\"terminationGracePeriodSeconds\":30,\"dnsPolicy\":\"ClusterFirst\","
                    "\"schedulerName\":\"volcano\",\"priority\":0,\"enableServiceLinks\":true,"
                    "\"tolerations\":[{\"key\":\"node.kubernetes.io/not-ready\",\"operator\":\"Exists\","
                    "\"effect\":\"NoExecute\",\"tolerationSeconds\":300}]},\"status\":{\"phase\":"
                    "\"Pending\",\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\","
                    "\"lastProbeTime\":null,\"lastTransitionTime\":\"2026-07-01T08:00:00Z\"}]}}");
}

/* One Node "gpu-node-NNNNN". */
static void gt_body_node(struct gt_buf *to, uint32_t number)
{
    gt_buf_printf(to,
                  "{\"metadata\":{\"name\":\"gpu-node-%05u\",\"uid\":\"aaaa-%u\",\"resourceVersion\":\"77\","
                  "\"labels\":{",
                  number, number);
    for (unsigned i = 0; i < 40; i++)
        gt_buf_printf(to, "%s\"feature.example.com/some-property-%u\":\"value-%u\"", i ? "," : "", i,
                      number + i);
    gt_buf_puts(to, "},\"annotations\":{\"metax-tech.com/gpu.topology.losses\":"
                    "\"{\\\"1\\\":100,\\\"2\\\":200,\\\"4\\\":300,\\\"8\\\":0}\"},\"managedFields\":[");
    put_fields(to, "kubelet", 30);
    gt_buf_puts(to, "]},\"spec\":{\"podCIDR\":\"10.244.0.0/24\",\"providerID\":\"example://1\"},"
                    "\"status\":{\"capacity\":{\"cpu\":\"192\",\"memory\":\"2113411660Ki\","
                    "\"metax-tech.com/gpu\":\"8\",\"pods\":\"110\"},\"allocatable\":{\"cpu\":\"192\","
                    "\"metax-tech.com/gpu\":\"8\",\"pods\":\"110\"},\"conditions\":[");
    for (unsigned i = 0; i < 6; i++)
        gt_buf_printf(to,
                      "%s{\"type\":\"Condition%u\",\"status\":\"False\",\"lastHeartbeatTime\":"
                      "\"2026-07-01T08:00:00Z\",\"reason\":\"KubeletIsFine\",\"message\":"
                      "\"the kubelet says that nothing is the matter\"}",
                      i ? "," : "", i);
    gt_buf_puts(to, "],\"images\":[");
    for (unsigned i = 0; i < 50; i++)
        gt_buf_printf(to,
                      "%s{\"names\":[\"example/some/image-%u@sha256:"
                      "9c7a54a9a43cca047013b82af109fe963fde787f63f9e016fdc3384500c2823d\","
                      "\"example/some/image-%u:v1.2.%u\"],\"sizeBytes\":%u}",
                      i ? "," : "", i, i, i, 1000003 * (i + 1));
    gt_buf_puts(to, "]}}");
}

void gt_body_extender(struct gt_buf *to, uint32_t nodes)
{
    gt_buf_puts(to, "{\"Pod\":");
    gt_body_pod(to, 3);
    gt_buf_puts(to, ",\"Nodes\":null,\"NodeNames\":[");
    for (uint32_t i = 0; i < nodes; i++)
        gt_buf_printf(to, "%s\"gpu-node-%05u\"", i ? "," : "", i);
    gt_buf_puts(to, "]}");
}

static void put_resource(struct gt_buf *to, const char *name, unsigned milli)
{
    gt_buf_printf(to,
                  "\"%s\":{\"MilliCPU\":192000,\"Memory\":2164133539840,\"ScalarResources\":{"
                  "\"ephemeral-storage\":1.4e+15,\"hugepages-1Gi\":0,\"metax-tech.com/gpu\":%u,\"pods\":110},"
                  "\"MaxTaskNum\":110}",
                  name, milli);
}

static void put_task(struct gt_buf *to, uint32_t number)
{
    gt_buf_printf(to,
                  "{\"UID\":\"7d4c0b1e-1111-4222-8333-%012u\",\"Job\":\"team-a/train\",\"Name\":"
                  "\"train-worker-%u\",\"Namespace\":\"team-a\",\"TaskRole\":\"worker\",",
                  number, number);
    put_resource(to, "Resreq", 8000);
    gt_buf_puts(to, ",");
    put_resource(to, "InitResreq", 8000);
    gt_buf_puts(to, ",\"NodeName\":\"\",\"EvictionOccurred\":false,\"JobAllocatedHyperNode\":\"\","
                    "\"Status\":1,\"LastTransaction\":null,\"Priority\":1,\"VolumeReady\":false,"
                    "\"BestEffort\":false,\"HasRestartableInitContainer\":false,"
                    "\"SchGated\":false,\"RevocableZone\":\"\",\"NumaInfo\":null,\"Pod\":");
    gt_body_pod(to, number);
    gt_buf_puts(to, ",\"CustomBindErrHandlerSucceeded\":false}");
}

static void put_node_info(struct gt_buf *to, uint32_t number, uint32_t pods)
{
    gt_buf_printf(to, "{\"Name\":\"gpu-node-%05u\",\"Node\":", number);
    gt_body_node(to, number);
    gt_buf_puts(to, ",\"State\":{\"Phase\":1,\"Reason\":\"\"},");
    put_resource(to, "Releasing", 0);
    gt_buf_puts(to, ",");
    put_resource(to, "Pipelined", 1000);
    gt_buf_puts(to, ",");
    put_resource(to, "Idle", 8000 - 1000 * (number % 9));
    gt_buf_puts(to, ",");
    put_resource(to, "Used", 1000 * (number % 9));
    gt_buf_puts(to, ",");
    put_resource(to, "Allocatable", 8000);
    gt_buf_puts(to, ",\"Tasks\":{");
    for (uint32_t i = 0; i < pods; i++) {
        gt_buf_printf(to, "%s\"team-a/train-worker-%u\":", i ? "," : "", number * pods + i);
        put_task(to, number * pods + i);
    }
    gt_buf_puts(to, "},\"NumaInfo\":null,\"NumaChgFlag\":0,\"Others\":{\"GpuShare\":null},\"ImageStates\":{");
    for (unsigned i = 0; i < 20; i++)
        gt_buf_printf(to, "%s\"example/some/image-%u\":{\"Size\":%u,\"NumNodes\":40}", i ? "," : "", i,
                      1000003 * (i + 1));
    gt_buf_puts(to, "},\"Generation\":17,\"BindGeneration\":3}");
}

void gt_body_volcano(struct gt_buf *to, uint32_t nodes, uint32_t pods, bool predicate)
{
    gt_buf_puts(to, "{\"task\":");
    put_task(to, 4000000);
    gt_buf_puts(to, predicate ? ",\"node\":" : ",\"nodes\":[");
    for (uint32_t i = 0; i < nodes; i++) {
        gt_buf_puts(to, i ? "," : "");
        put_node_info(to, i, pods);
    }
    gt_buf_puts(to, predicate ? "}" : "]}");
}
