/* SPDX-License-Identifier: Apache-2.0 */
#include "api/config_map.h"

#include <errno.h>
#include <string.h>

#include "base/json_get.h"

static const char *config_map_keep(char **at, const char *text)
{
    size_t size = strlen(text) + 1;
    char *kept = memcpy(*at, text, size);
    *at += size;
    return kept;
}

int gt_config_map_read(const cJSON *object, struct gt_config_map **ret, struct gt_err **err)
{
    const cJSON *item, *data = gt_get(object, "data");
    unsigned count = 0;
    size_t bytes = 0;
    cJSON_ArrayForEach(item, data)
    {
        if (!cJSON_IsString(item) || !item->string)
            continue;
        count++;
        bytes += strlen(item->string) + strlen(item->valuestring) + 2;
    }
    if (count > GT_CONFIG_MAP_KEYS_MAX)
        return gt_fail(err, E2BIG, "ConfigMap: %u keys, the limit is %d", count, GT_CONFIG_MAP_KEYS_MAX);
    struct gt_config_map *map = malloc(sizeof(*map) + count * sizeof(*map->data) + bytes);
    GT_NEED(map, err, "ConfigMap");
    char *at = (char *)&map->data[count];
    map->count = 0;
    cJSON_ArrayForEach(item, data)
    {
        if (!cJSON_IsString(item) || !item->string)
            continue;
        struct gt_pair *pair = &map->data[map->count++];
        pair->key = config_map_keep(&at, item->string);
        pair->value = config_map_keep(&at, item->valuestring);
    }
    *ret = map;
    return 0;
}

void gt_config_map_free(struct gt_config_map *map)
{
    free(map);
}

const char *gt_config_map_get(const struct gt_config_map *map, const char *key)
{
    const struct gt_pair *found = GT_FIND(map->data, map->count, key, key);
    return found ? found->value : NULL;
}
