/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "base/json_write.h"
#include "topology/model/node_json.h"
#include "topology/model/render.h"

void gt_render_json(const struct gt_node *node, struct gt_buf *to)
{
    gt_auto_buf struct gt_buf text = GT_BUF(GT_JSON_MAX);
    gt_json_begin(&text, NULL, '{');
    gt_node_add_json(node, node->name, &text);
    gt_json_end(&text, '}');
    gt_json_indent(&text, to);
}

/* The same tree as the JSON form, through libyaml's emitter. */

static int write_to_buffer(void *data, unsigned char *bytes, size_t len)
{
    struct gt_buf *to = data;
    gt_buf_add(to, bytes, len);
    return !to->failed;
}

/* Whether a plain scalar reads as a string under YAML 1.1 and 1.2 alike: no number, date, sexagesimal (a BDF
 * looks like one) or boolean. */
static bool reads_as_string(const char *text)
{
    static const char *const words[] = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"};
    if (!((text[0] >= 'a' && text[0] <= 'z') || (text[0] >= 'A' && text[0] <= 'Z')))
        return false;
    for (unsigned i = 0; i < GT_COUNT(words); i++)
        if (!strcasecmp(text, words[i]))
            return false;
    return true;
}

/* yaml_emitter_emit() takes the event, also where it fails. */
static bool emit_scalar(yaml_emitter_t *emitter, const char *text, yaml_scalar_style_t style)
{
    union {
        const char *in;
        yaml_char_t *out; /* libyaml only reads it */
    } value = {.in = text};
    yaml_event_t event;
    return yaml_scalar_event_initialize(&event, NULL, NULL, value.out, (int)strlen(text), 1, 1, style) &&
           yaml_emitter_emit(emitter, &event);
}

static bool emit_text(yaml_emitter_t *emitter, const char *text)
{
    return emit_scalar(emitter, text,
                       reads_as_string(text) ? YAML_PLAIN_SCALAR_STYLE : YAML_DOUBLE_QUOTED_SCALAR_STYLE);
}

static bool emit_number(yaml_emitter_t *emitter, const cJSON *json)
{
    gt_auto_buf struct gt_buf number = GT_BUF(64);
    gt_json_print(json, &number);
    if (number.failed || !number.len)
        return false;
    number.data[number.len - 1] = '\0'; /* its newline */
    const char *exponent = strchr(number.data, 'e');
    if (exponent && !strchr(number.data, '.')) { /* YAML 1.1 knows no number like 1e-05 */
        gt_auto_buf struct gt_buf with_point = GT_BUF(64);
        gt_buf_printf(&with_point, "%.*s.0%s", (int)(exponent - number.data), number.data, exponent);
        return !with_point.failed && emit_scalar(emitter, with_point.data, YAML_PLAIN_SCALAR_STYLE);
    }
    return emit_scalar(emitter, number.data, YAML_PLAIN_SCALAR_STYLE);
}

static bool only_scalars(const cJSON *json)
{
    for (const cJSON *child = json->child; child; child = child->next)
        if (cJSON_IsArray(child) || cJSON_IsObject(child))
            return false;
    return true;
}

static unsigned members(const cJSON *json)
{
    unsigned count = 0;
    for (const cJSON *child = json->child; child; child = child->next)
        count++;
    return count;
}

/* The depth is that of our own JSON. */
static bool emit_value(yaml_emitter_t *emitter, const cJSON *json, bool in_array)
{
    yaml_event_t event;
    bool array = cJSON_IsArray(json);
    if (cJSON_IsString(json))
        return emit_text(emitter, json->valuestring);
    if (cJSON_IsNumber(json))
        return emit_number(emitter, json);
    if (!array && !cJSON_IsObject(json))
        return emit_scalar(emitter,
                           cJSON_IsTrue(json)    ? "true"
                           : cJSON_IsFalse(json) ? "false"
                                                 : "null",
                           YAML_PLAIN_SCALAR_STYLE);

    /* Lists of scalars and the small objects in lists, the links, on one line. */
    bool flow = only_scalars(json) && (array || (in_array && members(json) > 2));
    bool begun = array
                     ? yaml_sequence_start_event_initialize(
                           &event, NULL, NULL, 1, flow ? YAML_FLOW_SEQUENCE_STYLE : YAML_BLOCK_SEQUENCE_STYLE)
                     : yaml_mapping_start_event_initialize(
                           &event, NULL, NULL, 1, flow ? YAML_FLOW_MAPPING_STYLE : YAML_BLOCK_MAPPING_STYLE);
    if (!begun || !yaml_emitter_emit(emitter, &event))
        return false;
    for (const cJSON *child = json->child; child; child = child->next)
        if ((!array && !emit_text(emitter, child->string)) || !emit_value(emitter, child, array))
            return false;
    return (array ? yaml_sequence_end_event_initialize(&event) : yaml_mapping_end_event_initialize(&event)) &&
           yaml_emitter_emit(emitter, &event);
}

static bool emit_document(yaml_emitter_t *emitter, const cJSON *json)
{
    yaml_event_t event;
    return yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING) &&
           yaml_emitter_emit(emitter, &event) &&
           yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1) &&
           yaml_emitter_emit(emitter, &event) && emit_value(emitter, json, false) &&
           yaml_document_end_event_initialize(&event, 1) && yaml_emitter_emit(emitter, &event) &&
           yaml_stream_end_event_initialize(&event) && yaml_emitter_emit(emitter, &event);
}

void gt_render_yaml(const cJSON *json, struct gt_buf *to)
{
    yaml_emitter_t emitter;
    if (!yaml_emitter_initialize(&emitter)) {
        to->failed = true;
        return;
    }
    yaml_emitter_set_output(&emitter, write_to_buffer, to);
    yaml_emitter_set_unicode(&emitter, 1);
    yaml_emitter_set_width(&emitter, -1);
    if (!emit_document(&emitter, json))
        to->failed = true;
    yaml_emitter_delete(&emitter);
}
