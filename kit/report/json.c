#include "report.h"

#include "../../tools/table.h"

#include <string.h>

static bool add_array(tool_record *to, const char *key, cJSON *array)
{
    if (!array || to->failed || !cJSON_AddItemToObject(to->json, key, array)) {
        cJSON_Delete(array);
        to->failed = true;
    }
    return !to->failed;
}

static bool append(cJSON *array, tool_record *record)
{
    if (!array || record->failed ||
        !cJSON_AddItemToArray(array, record->json)) {
        cJSON_Delete(record->json);
        return false;
    }
    return true;
}

static bool add_devices(tool_record *to, const kit_query *query)
{
    cJSON *array = cJSON_CreateArray();
    bool good = array;
    for (uint32_t i = 0; i < query->n_devices && good; i++) {
        const kit_queried_device *d = &query->devices[i];
        tool_record record = tool_record_begin();
        tool_record_string(&record, "id", d->label);
        tool_record_string(&record, "name", d->name);
        tool_record_string(&record, "driver", d->driver);
        good = append(array, &record);
    }
    to->failed |= !good;
    return add_array(to, "devices", array);
}

static bool add_cases(tool_record *to, const kit_report *report)
{
    cJSON *array = cJSON_CreateArray();
    bool good = array;
    for (uint32_t i = 0; i < report->n && good; i++) {
        const kit_result *r = &report->results[i];
        tool_record record = tool_record_begin();
        tool_record_string(&record, "name", r->name);
        tool_record_string(&record, "device", r->device);
        tool_record_string(&record, "group", r->group);
        tool_record_string(&record, "outcome", kit_outcome_name(r->outcome));
        tool_record_string(&record, "text", r->text ? r->text : "");
        tool_record_bool(&record, "warning", r->warned);
        tool_record_number(&record, "seconds", (double)r->ns * 1e-9);
        tool_record_number(&record, "printed", (double)r->printed);
        good = append(array, &record);
    }
    to->failed |= !good;
    return add_array(to, "cases", array);
}

bool kit_json_end(const kit_report *report)
{
    tool_record record = tool_record_begin();
    uint32_t counts[KIT_N_OUTCOMES] = {0}, failed = 0;
    for (uint32_t i = 0; i < report->n; i++) {
        counts[report->results[i].outcome]++;
        failed += kit_outcome_fails(report->results[i].outcome);
    }
    tool_record_string(&record, "path", report->path);
    tool_record_string(&record, "plugin", report->query->plugin.name);
    tool_record_string(&record, "version", report->query->plugin.version);
    tool_record_string(&record, "build_id", report->query->plugin.build_id);
    tool_record_bool(&record, "conforms", !failed && !report->failed);
    for (uint32_t i = 0; i < KIT_N_OUTCOMES; i++)
        tool_record_number(&record, kit_outcome_name(i), counts[i]);
    add_devices(&record, report->query);
    add_cases(&record, report);
    return tool_record_print(record);
}
